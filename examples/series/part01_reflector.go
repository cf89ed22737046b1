package series

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// KubernetesResourceReflector is the last picture of part 1: it gets a client and a store, and makes
// the store a copy of what the server has. The ListerWatcher is a detail of it.
//
// Library: reflector.KubernetesResourceReflector.
type KubernetesResourceReflector[T Object] struct {
	source  ListerWatcher[T]
	store   ReflectorStore[T]
	version atomic.Value // a string: the version up to which the store has every change
}

func NewReflector[T Object](source ListerWatcher[T], store ReflectorStore[T]) *KubernetesResourceReflector[T] {
	return &KubernetesResourceReflector[T]{source: source, store: store}
}

// Run lists and watches until ctx ends. After a failure it waits for one second and lists everything
// again. client-go 6.0 did the same, except after a refused connection.
func (r *KubernetesResourceReflector[T]) Run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = r.listAndWatch(ctx) // client-go logs it
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (r *KubernetesResourceReflector[T]) listAndWatch(ctx context.Context) error {
	// Version 0 lets the server answer from its cache.
	objects, version, err := r.source.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	if err := r.store.Replace(objects, version); err != nil {
		return err
	}
	r.version.Store(version)
	for ctx.Err() == nil {
		if err := r.watch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watch opens one watch at the last version, and writes its events to the store. A server ends each
// watch after half an hour to an hour, and earlier if the client asks for it, as client-go does. So an
// end is no failure, unless it comes at once and without an event.
func (r *KubernetesResourceReflector[T]) watch(ctx context.Context) error {
	began, empty := time.Now(), true
	events, err := r.source.Watch(ctx, metav1.ListOptions{ResourceVersion: r.LastSyncResourceVersion()})
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if err := r.apply(event); err != nil {
			return err
		}
		empty = false
	}
	if empty && time.Since(began) < time.Second {
		return errors.New("very short watch")
	}
	return nil
}

// apply drops errors of the store, as client-go does. The version moves on all the same, so a
// rejected object is missing until the next list.
func (r *KubernetesResourceReflector[T]) apply(event watch.Event) error {
	object, ok := event.Object.(T)
	if !ok {
		return apierrors.FromObject(event.Object) // an ERROR event carries a Status, such as 410
	}
	switch event.Type {
	case watch.Added:
		_ = r.store.Add(object)
	case watch.Modified:
		_ = r.store.Update(object)
	case watch.Deleted:
		_ = r.store.Delete(object)
	}
	r.version.Store(object.GetResourceVersion())
	return nil
}

// LastSyncResourceVersion is empty before the first list.
func (r *KubernetesResourceReflector[T]) LastSyncResourceVersion() string {
	version, _ := r.version.Load().(string)
	return version
}
