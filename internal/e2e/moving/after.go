package moving

import (
	"context"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
)

var siteKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// sites is the controller, for this library.
type sites struct {
	kubernetes.Interface
	sites       *informer.Informer[*corev1.ConfigMap]
	deployments *informer.Informer[*appsv1.Deployment]
	gone        func(ctx context.Context, name string) error
}

// reconcile makes the Deployment of a site be as the site says.
func (s *sites) reconcile(ctx context.Context, key store.Key, site *corev1.ConfigMap) (reconcile.Result, error) {
	if site == nil || site.Labels["site"] != "yes" {
		return reconcile.Result{}, nil
	}
	client := s.CoreV1().ConfigMaps(key.Namespace)
	site, alive, err := write.Finalize(ctx, client, site, finalizer, func(ctx context.Context, site *corev1.ConfigMap) error {
		return s.gone(ctx, site.Name)
	})
	if err != nil || !alive {
		return reconcile.Result{}, err
	}
	replicas, err := strconv.ParseInt(site.Data["replicas"], 10, 32)
	if err != nil {
		return reconcile.Result{}, eventqueue.Permanent(err)
	}
	return reconcile.Result{RequeueAfter: time.Hour}, s.ensure(ctx, site, int32(replicas))
}

// ensure creates or changes the Deployment of a site, if it is not as it should be.
func (s *sites) ensure(ctx context.Context, site *corev1.ConfigMap, replicas int32) error {
	key := store.Key{Namespace: site.Namespace, Name: site.Name}
	held, _ := s.deployments.Cache().Get(key)
	_, err := write.CreateOrUpdate(ctx, s.AppsV1().Deployments(site.Namespace), held, key, func(deployment *appsv1.Deployment) error {
		shape(deployment, replicas)
		return write.Own(site, siteKind, deployment)
	})
	return err
}

// run runs the controller until ctx ends.
func run(ctx context.Context, config *rest.Config, gone func(context.Context, string) error) error {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "sites"},
		Client:     clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: string(uuid.NewUUID())}, // no other process has it
	}
	m := manager.New(config, manager.WithElection(lock))
	s := &sites{Interface: clientset, gone: gone}
	if s.sites, err = manager.Informer[*corev1.ConfigMap](m, manager.Selection{}); err != nil {
		return err
	}
	if s.deployments, err = manager.Informer[*appsv1.Deployment](m, manager.Selection{}); err != nil {
		return err
	}
	secrets, err := manager.Informer[*corev1.Secret](m, manager.Selection{})
	if err != nil {
		return err
	}
	manager.Reconcile(m, "sites", s.sites, s.reconcile,
		reconcile.Owns(s.deployments, siteKind.GroupKind()),
		reconcile.Watch(secrets, reconcile.ByLabel[*corev1.Secret]("for-site")),
		reconcile.Where(func(event eventqueue.Event[*corev1.ConfigMap]) bool {
			return event.Object.Labels["site"] == "yes"
		}))
	return m.Run(ctx)
}
