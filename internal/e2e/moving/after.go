package moving

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
)

// sites is the controller, for this library.
type sites struct {
	kubernetes.Interface
	sites       *informer.Informer[*corev1.ConfigMap]
	deployments *informer.Informer[*appsv1.Deployment]
	gone        func(ctx context.Context, name string) error
}

// reconcile makes the Deployment of a site be as the site says.
func (s *sites) reconcile(ctx context.Context, key store.Key) (controller.Result, error) {
	site, ok := s.sites.Cache().Get(key)
	if !ok || site.Labels["site"] != "yes" {
		return controller.Result{}, nil
	}
	held := slices.Index(site.Finalizers, finalizer)
	if site.DeletionTimestamp != nil {
		if held < 0 {
			return controller.Result{}, nil
		}
		if err := s.gone(ctx, site.Name); err != nil {
			return controller.Result{}, err
		}
		site = site.DeepCopy() // the cached one is everybody's
		site.Finalizers = slices.Delete(site.Finalizers, held, held+1)
		return controller.Result{}, s.update(ctx, site)
	}
	if held < 0 {
		site = site.DeepCopy()
		site.Finalizers = append(site.Finalizers, finalizer)
		if err := s.update(ctx, site); err != nil {
			return controller.Result{}, err
		}
	}
	replicas, err := strconv.ParseInt(site.Data["replicas"], 10, 32)
	if err != nil {
		return controller.Result{}, controller.Permanent(err)
	}
	return controller.Result{RequeueAfter: time.Hour}, s.ensure(ctx, site, int32(replicas))
}

// ensure creates or changes the Deployment of a site, if it is not as it should be.
func (s *sites) ensure(ctx context.Context, site *corev1.ConfigMap, replicas int32) error {
	client := s.AppsV1().Deployments(site.Namespace)
	deployment, ok := s.deployments.Cache().Get(store.Key{Namespace: site.Namespace, Name: site.Name})
	var err error
	switch {
	case !ok:
		deployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: site.Namespace, Name: site.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(site, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		}}
		shape(deployment, replicas)
		deployment, err = client.Create(ctx, deployment, metav1.CreateOptions{})
	case *deployment.Spec.Replicas != replicas:
		deployment = deployment.DeepCopy()
		shape(deployment, replicas)
		deployment, err = client.Update(ctx, deployment, metav1.UpdateOptions{})
	}
	if err == nil {
		controller.Wrote(ctx, deployment) // the next call sees it
	}
	return err
}

func (s *sites) update(ctx context.Context, site *corev1.ConfigMap) error {
	written, err := s.CoreV1().ConfigMaps(site.Namespace).Update(ctx, site, metav1.UpdateOptions{})
	switch {
	case err == nil && len(written.Finalizers) > 0:
		controller.Wrote(ctx, written)
	case err == nil:
		controller.Deleted(ctx, written)
	case apierrors.IsNotFound(err):
		return nil
	}
	return err
}

// run runs the controller until ctx ends.
func run(ctx context.Context, config *rest.Config, gone func(context.Context, string) error) error {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	s := &sites{
		Interface:   clientset,
		sites:       informer.New(clientset.CoreV1().ConfigMaps("")),
		deployments: informer.New(clientset.AppsV1().Deployments("")),
		gone:        gone,
	}
	secrets := informer.New(clientset.CoreV1().Secrets(""))
	owner := controller.Owner[*appsv1.Deployment](corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind())
	reconciler := controller.NewReconciler("sites", s.sites, s.reconcile,
		controller.Watch(s.deployments, owner),
		controller.Watch(secrets, controller.Labelled[*corev1.Secret]("for-site")))
	reconciler.Only(func(event eventqueue.Event[*corev1.ConfigMap]) bool {
		return event.Object.Labels["site"] == "yes"
	})

	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "sites"},
		Client:     clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "one"},
	}
	var informers informer.Group
	informers.Add(s.sites)
	informers.Add(s.deployments)
	informers.Add(secrets)
	informing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	informed := make(chan error, 1)
	go func() { informed <- informers.Run(informing) }()
	err = leader.New(lock, reconciler).Run(ctx)
	stop() // when nobody reconciles any more
	return errors.Join(err, <-informed)
}
