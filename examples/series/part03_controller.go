package series

import (
	"context"
	"sync"
)

// Queue is a store that can also pop. No reader looks into it, so the five methods of a reflector
// suffice.
//
// Library: eventqueue.Collection.
type Queue[T Object] interface {
	ReflectorStore[T]
	Pop(ctx context.Context) (*EventQueue[T], error)
	HasSynced() bool
}

// controller is the real contract of part 2's interface: a reflector fills the queue, and a loop
// empties it.
type controller[T Object] struct {
	config    Config[T]
	reflector *KubernetesResourceReflector[T]
}

// NewController is client-go's New.
func NewController[T Object](config Config[T]) Controller[T] {
	return &controller[T]{config, NewReflector(config.Source, config.Queue)}
}

// Run blocks until ctx ends. The loop runs in the goroutine of the caller.
func (c *controller[T]) Run(ctx context.Context) {
	var reflecting sync.WaitGroup
	reflecting.Go(func() { c.reflector.Run(ctx) })
	c.processLoop(ctx)
	reflecting.Wait()
}

// processLoop drops the errors of Process, as client-go's does. So what fails is lost.
func (c *controller[T]) processLoop(ctx context.Context) {
	for {
		queue, err := c.config.Queue.Pop(ctx)
		if err != nil {
			return
		}
		_ = c.config.Process(queue)
	}
}

func (c *controller[T]) HasSynced() bool { return c.config.Queue.HasSynced() }
func (c *controller[T]) LastSyncResourceVersion() string {
	return c.reflector.LastSyncResourceVersion()
}
