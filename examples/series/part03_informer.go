package series

import (
	"context"
	"sync"
)

// controller is the real contract: a reflector fills the queue, a loop empties it.
type controller[T Object] struct {
	config    Config[T]
	reflector *KubernetesResourceReflector[T]
}

func NewController[T Object](config Config[T]) Controller[T] {
	return &controller[T]{config, NewReflector(config.Source, config.Queue)}
}

func (c *controller[T]) HasSynced() bool { return c.config.Queue.HasSynced() }
func (c *controller[T]) LastSyncResourceVersion() string {
	return c.reflector.LastSyncResourceVersion()
}

func (c *controller[T]) Run(ctx context.Context) {
	var reflecting sync.WaitGroup
	reflecting.Go(func() { c.reflector.Run(ctx) })
	c.processLoop(ctx)
	reflecting.Wait()
}

// processLoop drops the error of Process, as client-go's does: what failed is lost.
func (c *controller[T]) processLoop(ctx context.Context) {
	for {
		queue, err := c.config.Queue.Pop(ctx)
		if err != nil {
			return
		}
		_ = c.config.Process(queue)
	}
}

// Handler is ResourceEventHandler. Library: informer.Handler.
type Handler[T Object] interface {
	OnAdd(object T)
	OnUpdate(prior, object T)
	OnDelete(object T)
}

// NewInformer is client-go's: a Controller that distributes what it pops to one handler, and keeps
// the known objects, which the caller may only read.
func NewInformer[T Object](source ListerWatcher[T], handler Handler[T]) (Store[T], Controller[T]) {
	known := &Map[T]{}
	queue := NewEventQueueCollection(known)
	process := Track(known, func(event Event[T]) { Deliver(handler, event) })
	return known, NewController(Config[T]{source, queue, process})
}

// Deliver calls the method of the handler that fits the event.
func Deliver[T Object](handler Handler[T], event Event[T]) {
	switch event.Type {
	case Addition:
		handler.OnAdd(event.Object)
	case Modification:
		handler.OnUpdate(event.Prior, event.Object)
	case Deletion:
		handler.OnDelete(event.Object)
	}
}
