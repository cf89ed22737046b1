package series

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// KubernetesResourceReflector is the last picture of part 1: it gets a client and a store, and
// hides the ListerWatcher. Library: reflector.KubernetesResourceReflector.
type KubernetesResourceReflector[T Object] struct {
	source  ListerWatcher[T]
	store   ReflectorStore[T]
	version atomic.Value // LastSyncResourceVersion
}

func NewReflector[T Object](source ListerWatcher[T], store ReflectorStore[T]) *KubernetesResourceReflector[T] {
	return &KubernetesResourceReflector[T]{source: source, store: store}
}

// Run lists and watches until ctx ends. As in client-go 6.0, it watches again after a watch that
// ended by itself. After a failure it waits one second and lists everything anew; client-go 6.0
// makes one exception, for a refused connection.
func (r *KubernetesResourceReflector[T]) Run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = r.listAndWatch(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (r *KubernetesResourceReflector[T]) listAndWatch(ctx context.Context) error {
	objects, version, err := r.source.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	if err := r.store.Replace(objects, version); err != nil {
		return err
	}
	r.version.Store(version)
	for ctx.Err() == nil {
		events, err := r.source.Watch(ctx, metav1.ListOptions{ResourceVersion: r.LastSyncResourceVersion()})
		if err != nil {
			return err
		}
		for event := range events.ResultChan() {
			if err := r.apply(event); err != nil {
				events.Stop()
				return err
			}
		}
	}
	return ctx.Err()
}

func (r *KubernetesResourceReflector[T]) apply(event watch.Event) (err error) {
	object, ok := event.Object.(any).(T)
	if !ok {
		return apierrors.FromObject(event.Object) // an ERROR event carries a Status, such as 410
	}
	switch event.Type {
	case watch.Added:
		err = r.store.Add(object)
	case watch.Modified:
		err = r.store.Update(object)
	case watch.Deleted:
		err = r.store.Delete(object)
	}
	r.version.Store(object.GetResourceVersion())
	return err
}

func (r *KubernetesResourceReflector[T]) LastSyncResourceVersion() string {
	version, _ := r.version.Load().(string)
	return version
}
