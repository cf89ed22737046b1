package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/store"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

const (
	name      = "site-operator" // of the field manager, the lease and the Events
	finalizer = "example.com/dns"
	managedBy = "app.kubernetes.io/managed-by"
	image     = "nginx:1.29"
)

// operator has the caches and clients of the reconcile function.
type operator struct {
	sites       *manager.Objects[*Site]
	configMaps  *manager.Objects[*corev1.ConfigMap]
	services    *manager.Objects[*corev1.Service]
	deployments *manager.Objects[*appsv1.Deployment]
	secret      func(context.Context, store.Key) (*corev1.Secret, error)
	events      events.EventRecorder
	dns         *dns
}

// problem is an error with the reason that the condition shows. A final problem stays until the
// Site or one of its objects changes, so a retry is useless.
type problem struct {
	reason string
	err    error
	final  bool
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// reconcile makes the objects and the DNS record of a Site as its spec says, and reports the result
// in its status.
func (o *operator) reconcile(ctx context.Context, _ store.Key, site *Site) (reconcile.Result, error) {
	if site == nil {
		return reconcile.Result{}, nil // Kubernetes deletes the objects that the Site owned
	}
	site, alive, err := write.Finalize(ctx, o.sites.Client, site, finalizer, o.dns.unregister)
	if err == nil && !alive {
		return reconcile.Result{}, nil
	}
	want := site.DeepCopy()
	var deployment *appsv1.Deployment
	if alive {
		deployment, err = o.ensure(ctx, site, &want.Status)
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{}, err // the cache was behind: the next call sees the new state
	}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, ObservedGeneration: site.Generation}
	var p *problem
	switch {
	case errors.As(err, &p):
		ready.Reason, ready.Message = p.reason, err.Error()
	case err != nil:
		ready.Reason, ready.Message = "Error", err.Error()
	case want.Status.ReadyReplicas < site.Spec.Replicas:
		ready.Reason, ready.Message = "Progressing", fmt.Sprintf("%d of %d replicas are ready", want.Status.ReadyReplicas, site.Spec.Replicas)
	case !rolledOut(deployment):
		ready.Reason, ready.Message = "Progressing", "the pods are being replaced"
	default:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, "Available", "http://"+site.Spec.Host
	}
	changed := meta.SetStatusCondition(&want.Status.Conditions, ready)
	if _, failed := write.Status(ctx, o.sites.Client, site, want); failed != nil {
		return reconcile.Result{}, errors.Join(err, failed)
	}
	if changed {
		kind := corev1.EventTypeNormal
		if err != nil {
			kind = corev1.EventTypeWarning
		}
		o.events.Eventf(site, nil, kind, ready.Reason, "Reconcile", "%s", ready.Message)
	}
	if p != nil && p.final {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// ensure makes the objects and the DNS record of a Site.
func (o *operator) ensure(ctx context.Context, site *Site, status *SiteStatus) (*appsv1.Deployment, error) {
	secret, err := o.secret(ctx, store.Key{Namespace: site.Namespace, Name: site.Spec.Secret})
	if apierrors.IsNotFound(err) {
		// Its creation is a new call.
		return nil, &problem{reason: "SecretNotFound", err: fmt.Errorf("there is no Secret %s", site.Spec.Secret), final: true}
	}
	if err != nil {
		return nil, err
	}
	if _, err := apply(ctx, o.configMaps, site, site.configMap()); err != nil {
		return nil, err
	}
	if _, err := apply(ctx, o.services, site, site.service()); err != nil {
		return nil, err
	}
	deployment, err := apply(ctx, o.deployments, site, site.deployment(secret))
	if err != nil {
		return nil, err
	}
	status.ReadyReplicas = deployment.Status.ReadyReplicas
	// The host alone does not prove the registration: an earlier PUT of another host may have
	// succeeded, and its answer or the write of the status failed.
	if status.HostGeneration == site.Generation {
		return deployment, nil
	}
	if err := o.dns.register(ctx, site); err != nil {
		return nil, err
	}
	status.Host, status.HostGeneration = site.Spec.Host, site.Generation
	return deployment, nil
}

// rolledOut reports whether a Deployment has no pods of an earlier template.
func rolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas <= d.Status.UpdatedReplicas
}

// apply applies an object of a Site. It takes back the fields that another client has changed. It
// changes no object that does not belong to the Site. The cache has only objects with the label of
// the operator, so apply asks the server for an object that the cache lacks.
//
// The object carries the UID of the one that was held. The server then refuses the object if
// another one has the name now: a process that takes over with a cache that is behind may see a
// Site that was deleted and created again, and would otherwise put the owner reference of the old
// Site onto the objects of the new one. The garbage collector would then delete them.
//
// It also carries the version, so that the server refuses to change another state than the held one,
// and reconcile.IgnoreOwnWrites recognizes the event of the change.
func apply[T metav1.Object](ctx context.Context, objects *manager.Objects[T], site *Site, want T) (T, error) {
	held, ok := objects.Cache().Get(store.Key{Namespace: want.GetNamespace(), Name: want.GetName()})
	if !ok {
		var err error
		held, err = objects.Client.In(want.GetNamespace()).Get(ctx, want.GetName(), metav1.GetOptions{})
		if ok = err == nil; !ok && !apierrors.IsNotFound(err) {
			return held, err
		}
	}
	if ok && !metav1.IsControlledBy(held, site) {
		return held, &problem{reason: "NameTaken", err: fmt.Errorf("a %T of this name does not belong to the Site", want)}
	}
	if ok {
		want.SetUID(held.GetUID())
		want.SetResourceVersion(held.GetResourceVersion())
	}
	return objects.Client.Apply(ctx, want, metav1.ApplyOptions{FieldManager: name, Force: true})
}

// sameKey maps an object to the Site with its name, whoever owns it: if it was in the way of a Site, its
// deletion has to wake that Site. reconcile.Owns would not map an object of another owner.
func sameKey[T metav1.Object](object T) []store.Key {
	return []store.Key{{Namespace: object.GetNamespace(), Name: object.GetName()}}
}
