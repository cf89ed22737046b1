package reconcile

import (
	"context"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (w *watching[S]) has(of written) bool {
	if _, ok := of.object.(S); !ok {
		return false
	}
	one, ok := of.object.(*unstructured.Unstructured)
	if !ok {
		return true
	}
	// Objects of every kind have this type. A cache holds objects of one kind.
	for _, held := range w.informer.Cache().All() {
		other, ok := any(held).(*unstructured.Unstructured)
		return !ok || one.GroupVersionKind().GroupKind() == other.GroupVersionKind().GroupKind()
	}
	return true
}

func (w *watching[S]) selects(of written) bool { return w.informer.Selects(of.object) }

func (w *watching[S]) visible(of store.Key, what written) wait {
	if !w.has(what) {
		return nil
	}
	object, cache := what.object.(S), w.informer.Cache()
	key, err := cache.KeyOf(object)
	if err != nil {
		return nil
	}
	if key.Cluster == "" {
		key.Cluster = of.Cluster // a write for a key goes to the key's cluster
	}
	seen := func(ctx context.Context) error { return await.ObjectIn(ctx, cache, key.Cluster, object) }
	switch {
	case what.deleted:
		return func(ctx context.Context) error {
			if err := seen(ctx); err != nil {
				return err
			}
			return waitUntil(ctx, cache, key, func(held metav1.Object) bool {
				return versionOf(held).uid != what.version.uid || held.GetDeletionTimestamp() != nil
			})
		}
	case !w.informer.Selects(what.object):
		// The cache will not show it. It may have shown an earlier state.
		return func(ctx context.Context) error {
			err := waitUntil(ctx, cache, key, func(held metav1.Object) bool { return !versionOf(held).before(what.version) })
			if held, ok := cache.Get(key); ok && err != nil {
				err = &await.Error{Wanted: what.version.resourceVersion, Reached: versionOf(held).resourceVersion, Key: key, Err: err}
			}
			return err
		}
	}
	return seen
}

// waitUntil waits until a cache holds no object under a key, or an object that is enough.
func waitUntil[S any](ctx context.Context, cache *store.View[S], key store.Key, enough func(metav1.Object) bool) error {
	ended := func() bool {
		held, ok := cache.Get(key)
		object, isObject := any(held).(metav1.Object)
		return !ok || !isObject || enough(object)
	}
	if ended() {
		return nil
	}
	for range cache.WatchKey(ctx, key) {
		if ended() {
			return nil
		}
	}
	return context.Cause(ctx)
}
