package series

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Writer is the half of a generated client that changes objects.
type Writer[T Object] interface {
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

// Flow is a controller from the watch to the write. The numbers are those of the notes on Eddie
// Zaneski's talk, which stop at 5.2; docs/under-the-hood/7-controllers.md continues them.
//
// Library: reconcile.Reconciler.
type Flow[T Object] struct {
	informer Controller[T]
	lister   Lister[T]
	keys     *WorkQueue[string]
	writer   Writer[T]
	desire   func(T) (T, bool)
}

// NewFlow makes a controller that gives each object the state that desire returns. desire returns
// false for an object that already has it.
func NewFlow[T Object](source ListerWatcher[T], writer Writer[T], desire func(T) (T, bool)) *Flow[T] {
	f := &Flow[T]{writer: writer, desire: desire}
	indexer := NewIndexer(func(object T) []string { return []string{object.GetNamespace()} })
	f.lister = NewLister(indexer)
	f.keys = NewWorkQueue[string]() // 6
	f.informer = NewController(Config[T]{
		Source:  source,                           // 1: its Reflector lists and watches
		Queue:   NewEventQueueCollection(indexer), // 2: each change becomes an event in a queue
		Process: Track(indexer, f.handle),         // 3.1: pop; 3.2: store; 4, 5.1, 5.2: then notify
	})
	return f
}

// handle is the event handler, step 5.2. It does no work: a key is enough, because the worker reads
// the newest state.
func (f *Flow[T]) handle(event Event[T]) { f.keys.Add(KeyOf(event.Object)) } // 6

// work is a worker.
func (f *Flow[T]) work(ctx context.Context) {
	for {
		key, ok := f.keys.Get() // 7
		if !ok {
			return
		}
		if err := f.reconcile(ctx, key); err != nil {
			f.keys.Retry(key)
		} else {
			f.keys.Forget(key)
		}
		f.keys.Done(key)
	}
}

func (f *Flow[T]) reconcile(ctx context.Context, key string) error {
	object, ok := f.lister.Get(key) // 8
	if !ok {
		return nil // it was deleted
	}
	desired, differs := f.desire(object)
	if !differs {
		return nil
	}
	// 9: to the API server, and not to the Indexer. The change comes back by the watch (10, 1).
	_, err := f.writer.Update(ctx, desired, metav1.UpdateOptions{})
	return err
}

// Run runs the informer and the workers until ctx ends.
func (f *Flow[T]) Run(ctx context.Context, workers int) {
	var running sync.WaitGroup
	defer running.Wait()
	defer f.keys.ShutDown()
	for range workers {
		running.Go(func() { f.work(ctx) })
	}
	f.informer.Run(ctx)
}

// NotifyThenStore is Track in the order of the notes, whose step 3.1 already notifies: only then it
// stores (3.2).
func NotifyThenStore[T Object](known Store[T], next func(Event[T])) func(*EventQueue[T]) error {
	return func(queue *EventQueue[T]) error {
		for _, event := range queue.Events {
			next(event)
			store := known.Update
			if event.Type == Deletion {
				store = known.Delete
			}
			if err := store(event.Object); err != nil {
				return err
			}
		}
		return nil
	}
}
