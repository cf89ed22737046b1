package series

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// EventCache has the three methods of the Java outcome's interface. It is what remains of part 1's
// Store if one asks only what a reflector needs.
//
// Library: store.Store.
type EventCache[T Object] interface {
	Add(verb EventType, object T)
	Replace(objects []T, version string)
	Synchronize()
}

// JavaReflector is the Reflector of part 9. It relies on its client to reconnect: it lists once, and
// hands the client a watcher.
//
// Library: reflector.KubernetesResourceReflector.
type JavaReflector[T Object] struct {
	source   ListerWatcher[T]
	cache    EventCache[T]
	watching sync.WaitGroup
}

func NewJavaReflector[T Object](source ListerWatcher[T], cache EventCache[T]) *JavaReflector[T] {
	return &JavaReflector[T]{source: source, cache: cache}
}

// Start lists in the goroutine of its caller. If it fails, nothing tries again.
func (r *JavaReflector[T]) Start(ctx context.Context) error {
	objects, version, err := r.source.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	r.cache.Replace(objects, version)
	events, err := r.source.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return err
	}
	r.watching.Go(func() {
		defer events.Stop()
		for event := range events.ResultChan() {
			if object, ok := event.Object.(T); ok {
				r.eventReceived(event.Type, object)
			} else {
				r.onClose(ctx)
				return
			}
		}
		// A watch that ends without an error is not opened again.
	})
	return nil
}

func (r *JavaReflector[T]) eventReceived(action watch.EventType, object T) {
	switch action {
	case watch.Added:
		r.cache.Add(Addition, object)
	case watch.Modified:
		r.cache.Add(Modification, object)
	case watch.Deleted:
		r.cache.Add(Deletion, object)
	}
}

// onClose lists everything again, at once.
func (r *JavaReflector[T]) onClose(ctx context.Context) { _ = r.Start(ctx) }

// Wait waits for the end of the watch, which ends with the context of Start.
func (r *JavaReflector[T]) Wait() { r.watching.Wait() }
