package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// replicator is the controller.
type replicator struct {
	client     *client.Resource[*corev1.ConfigMap] // reads and writes
	configMaps *informer.Informer[*corev1.ConfigMap]
	namespaces *informer.Informer[*corev1.Namespace]
	copies     *store.Index[store.Key, *corev1.ConfigMap] // by their source
}

// reconcile makes the copies of a source what they should be. The source has a finalizer
// before the first copy is made, and until the last one is gone.
func (r *replicator) reconcile(ctx context.Context, key store.Key, source *corev1.ConfigMap) (reconcile.Result, error) {
	wanted, selector := source != nil && source.DeletionTimestamp == nil && source.Annotations[copyTo] != "", labels.Nothing()
	if wanted {
		var err error
		if selector, err = labels.Parse(source.Annotations[copyTo]); err != nil {
			return reconcile.Result{}, eventqueue.Permanent(fmt.Errorf("annotation %s: %w", copyTo, err))
		}
	}
	for _, c := range r.copies.Get(key) {
		namespace, ok := r.namespaces.Cache().Get(store.Key{Name: c.Namespace})
		if ok && c.Name == key.Name && selector.Matches(labels.Set(namespace.Labels)) {
			continue
		}
		if err := write.Delete(ctx, r.client, c); err != nil {
			return reconcile.Result{}, err
		}
	}
	if source == nil {
		return reconcile.Result{}, nil
	}
	if err := r.finalize(ctx, source, wanted); err != nil {
		return reconcile.Result{}, err
	}
	var errs []error
	for _, namespace := range r.namespaces.Cache().All() {
		if selector.Matches(labels.Set(namespace.Labels)) && namespace.DeletionTimestamp == nil && namespace.Name != key.Namespace {
			errs = append(errs, r.ensure(ctx, source, namespace.Name))
		}
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// finalize adds or removes the finalizer of a source.
func (r *replicator) finalize(ctx context.Context, source *corev1.ConfigMap, wanted bool) error {
	change := write.RemoveFinalizer[*corev1.ConfigMap]
	if wanted {
		change = write.AddFinalizer
	}
	_, err := change(ctx, r.client, source, finalizer)
	return err
}

// ensure creates or repairs the copy in a namespace.
func (r *replicator) ensure(ctx context.Context, source *corev1.ConfigMap, namespace string) error {
	key, from := store.Key{Namespace: namespace, Name: source.Name}, source.Namespace+"/"+source.Name
	held, ok := r.configMaps.Cache().Get(key)
	if ok && held.Annotations[copyOf] != from {
		return fmt.Errorf("there is a ConfigMap %s that is no copy", key)
	}
	_, err := write.CreateOrUpdate(ctx, r.client, held, key, func(c *corev1.ConfigMap) error {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, copyOf, from)
		c.Data, c.BinaryData = source.Data, source.BinaryData
		return nil
	})
	return err
}
