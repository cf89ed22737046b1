package simulated

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/controller/simulate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var cachePairs = []pair{
	{
		name:     "a second child, because the cache does not have the first",
		operator: secondChild,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), setImage("a", "v2")}},
		line:     "hold configmaps from create configmaps default/a-*#1 for 2 writes",
		says:     "there are 2 of ConfigMap default/a-*, undisturbed 1",
	},
	{
		name:     "a deletion by name of an object that was just made",
		operator: deletesTheReplacement,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), setImage("a", "v2")}},
		line:     "hold configmaps from delete configmaps default/a#1 for 2 writes",
		says:     "delete configmaps default/a removed another object than the one with that name in the operator's cache",
	},
	{
		name:     "a deletion, because the cache does not have the parent",
		operator: sweeper,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), remove("a")}},
		line:     "hold deployments from create deployments default/a#1 for 2 writes",
		says:     "ConfigMap default/a-env is missing",
	},
}

// secondChild makes one ConfigMap for each site. With a fixed name, a second one already exists.
func secondChild(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		var children corev1.ConfigMapList
		if err := c.List(ctx, &children, labelled(s)...); err != nil {
			return ctrl.Result{}, err
		}
		if len(children.Items) == 0 {
			child := &corev1.ConfigMap{ObjectMeta: owned(s, "")}
			if buggy {
				child.Name, child.GenerateName = "", s.Name+"-"
			}
			if err := c.Create(ctx, child); client.IgnoreAlreadyExists(err) != nil {
				return ctrl.Result{}, err
			}
		}
		if s.Status.Image == s.Spec.Image {
			return ctrl.Result{}, nil
		}
		s.Status.Image = s.Spec.Image
		return ctrl.Result{}, c.Status().Update(ctx, s)
	}, &corev1.ConfigMap{})
}

// deletesTheReplacement replaces an immutable ConfigMap by another one with the same name. As long as the
// cache shows the old one, a deletion by name removes the new one.
func deletesTheReplacement(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		want, have := release(s), &corev1.ConfigMap{}
		switch err := c.Get(ctx, client.ObjectKeyFromObject(want), have); {
		case client.IgnoreNotFound(err) != nil:
			return ctrl.Result{}, err
		case err == nil && have.Data["image"] == s.Spec.Image:
			return ctrl.Result{}, nil
		case err == nil:
			var only []client.DeleteOption
			if !buggy {
				only = append(only, client.Preconditions{UID: &have.UID})
			}
			if err := c.Delete(ctx, have, only...); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
		if err := c.Create(ctx, want); client.IgnoreAlreadyExists(err) != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil // to see whether it is the right one
	}, &corev1.ConfigMap{})
}

// sweeper makes a Deployment and a ConfigMap for it. A second controller deletes the ConfigMaps whose
// Deployment is gone. An object that is missing in a cache may also be one that is not there yet, so
// this controller has to ask the server before it deletes.
func sweeper(mgr ctrl.Manager, buggy bool) error {
	c, live := mgr.GetClient(), mgr.GetAPIReader()
	err := forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		d := &appsv1.Deployment{ObjectMeta: owned(s, "")}
		env := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-env", Labels: map[string]string{"deployment": d.Name}}}
		for _, object := range []client.Object{d, env} {
			err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				err = client.IgnoreAlreadyExists(c.Create(ctx, object))
			}
			if err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, nil
	})
	if err != nil {
		return err
	}
	sweep := reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		env, parent := &corev1.ConfigMap{}, &appsv1.Deployment{}
		if err := c.Get(ctx, request.NamespacedName, env); err != nil || env.Labels["deployment"] == "" {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		key := types.NamespacedName{Namespace: env.Namespace, Name: env.Labels["deployment"]}
		if err := c.Get(ctx, key, parent); !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		if !buggy {
			if err := live.Get(ctx, key, parent); err == nil {
				return ctrl.Result{RequeueAfter: time.Minute}, nil // it may go before the cache has it, and there is no event then
			} else if !apierrors.IsNotFound(err) {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, client.IgnoreNotFound(c.Delete(ctx, env, client.Preconditions{UID: &env.UID}))
	})
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, d client.Object) []ctrl.Request {
			return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: d.GetNamespace(), Name: d.GetName() + "-env"}}}
		})).
		Complete(sweep)
}
