package simulated

import (
	"context"
	"slices"

	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

var clientPairs = []pair{
	{
		name:     "annotations of another client",
		operator: foreignAnnotations,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), setImage("a", "v2")}},
		line:     "annotate after create configmaps default/a#1",
		says:     "the operator removed an annotation that another client had set on configmaps default/a",
	},
	{
		name:     "an object that another controller has just adopted",
		operator: adopter,
		scenario: simulate.Scenario{
			Steps: []simulate.Step{
				{Name: "create site a and a ConfigMap for it", Do: func(s *reflectortest.Server) error {
					return createAll(s, anotherOwner(), free(), site("a"))
				}},
				{Name: "another controller adopts the ConfigMap if it is free", Do: func(s *reflectortest.Server) error {
					c, owner := free(), anotherOwner()
					if err := s.Get(c); err != nil || metav1.GetControllerOf(c) != nil {
						return err
					}
					if err := s.Get(owner); err != nil {
						return err
					}
					c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
					return s.Update(c)
				}},
			},
			Normalize: func(object map[string]any) { // either may be the first
				if object["kind"] == "ConfigMap" {
					delete(object["metadata"].(map[string]any), "ownerReferences")
				}
			},
		},
		line: "step before patch configmaps default/free#1",
		says: "patch configmaps default/free changed .metadata.ownerReferences, which had changed since the operator read it",
	},
	{
		name:     "a list to which another client adds",
		operator: pullSecret,
		scenario: simulate.Scenario{Steps: []simulate.Step{
			{Name: "create site a and a ServiceAccount", Do: func(s *reflectortest.Server) error {
				return createAll(s, account(), site("a"))
			}},
			simulate.Change(account(), func(a *corev1.ServiceAccount) {
				a.ImagePullSecrets = append(a.ImagePullSecrets, corev1.LocalObjectReference{Name: "of-another-client"})
			}),
		}},
		line: "step before patch serviceaccounts default/default#1",
		says: "patch serviceaccounts default/default changed .imagePullSecrets, which had changed since the operator read it",
	},
}

func createAll(s *reflectortest.Server, objects ...metav1.Object) error {
	for _, o := range objects {
		if err := s.Create(o); err != nil {
			return err
		}
	}
	return nil
}

// foreignAnnotations notes the image in an annotation of a ConfigMap. The map of annotations has other
// writers, so only its own key is the operator's.
func foreignAnnotations(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
		_, err := controllerutil.CreateOrUpdate(ctx, c, child, func() error {
			if buggy || child.Annotations == nil {
				child.Annotations = map[string]string{}
			}
			child.Annotations["example.com/image"] = s.Spec.Image
			return controllerutil.SetControllerReference(s, child, scheme)
		})
		return ctrl.Result{}, err
	}, &corev1.ConfigMap{})
}

// free is a ConfigMap for site a that nobody owns at first.
func free() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "free", Labels: map[string]string{"site": "a"}}}
}

func anotherOwner() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "another-owner"}}
}

// adopter becomes the controller of each ConfigMap with the site's label that has none. Another one may
// do so between the read and the write, so the patch has to fail if the object has changed.
func adopter(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	adopt := found(c, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		var candidates corev1.ConfigMapList
		if err := c.List(ctx, &candidates, labelled(s)...); err != nil {
			return ctrl.Result{}, err
		}
		for _, one := range candidates.Items {
			if metav1.GetControllerOf(&one) != nil {
				continue
			}
			patch := client.MergeFrom(one.DeepCopy())
			if !buggy {
				patch = client.MergeFromWithOptions(one.DeepCopy(), client.MergeFromWithOptimisticLock{})
			}
			one.OwnerReferences = append(one.OwnerReferences, *metav1.NewControllerRef(s, siteKind))
			if err := c.Patch(ctx, &one, patch); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, nil
	})
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
			return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()["site"]}}}
		})).
		Complete(adopt)
}

func account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
}

// pullSecret adds the registry's secret to the ServiceAccount of the namespace. A merge patch has the
// whole list, so without a version it removes what was added since the read.
func pullSecret(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	registry := corev1.LocalObjectReference{Name: "registry"}
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		a := &corev1.ServiceAccount{}
		if err := c.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: "default"}, a); err != nil {
			return ctrl.Result{}, err
		}
		if slices.Contains(a.ImagePullSecrets, registry) {
			return ctrl.Result{}, nil
		}
		patch := client.MergeFrom(a.DeepCopy())
		if !buggy {
			patch = client.MergeFromWithOptions(a.DeepCopy(), client.MergeFromWithOptimisticLock{})
		}
		a.ImagePullSecrets = append(a.ImagePullSecrets, registry)
		return ctrl.Result{}, c.Patch(ctx, a, patch)
	})
}
