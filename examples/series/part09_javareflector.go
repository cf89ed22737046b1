package series

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// EventCache has the three methods of the Java outcome's interface: what is left of the nine methods
// of part 1's Store if nobody reads through it.
type EventCache[T Object] interface {
	Add(eventType EventType, object T)
	Replace(objects []T, version string)
	Synchronize()
}

// JavaReflector is the Reflector of part 9. The client restarts broken connections, so the reflector
// only lists, and gives the client a Watcher. Library: reflector.KubernetesResourceReflector.
type JavaReflector[T Object] struct {
	source ListerWatcher[T]
	cache  EventCache[T]
}

// Start lists in the caller's goroutine. A first list that fails is final.
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
	go r.watch(ctx, events)
	return nil
}

// watch is the inner class WatchHandler: eventReceived, then onClose. A watch that ends with an error
// starts all anew, at once; a watch that ends without one is not opened again.
func (r *JavaReflector[T]) watch(ctx context.Context, events watch.Interface) {
	for event := range events.ResultChan() {
		object, ok := event.Object.(any).(T)
		if !ok {
			_ = r.Start(ctx)
			return
		}
		r.cache.Add(map[watch.EventType]EventType{
			watch.Added: Addition, watch.Modified: Modification, watch.Deleted: Deletion,
		}[event.Type], object)
	}
}
