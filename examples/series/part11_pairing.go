package series

import (
	"context"
	"fmt"
	"reflect"
	"sync"
)

// Container pairs producers and observers by type and qualifier, as the extension of part 11 does.
// In Go, the type alone is enough, and the compiler does the pairing: Observe does not compile with
// a client and a function for different types.
type Container struct {
	producers map[pair]any
	observers map[pair]func(ctx context.Context, producer any)
}

type pair struct {
	of        reflect.Type
	qualifier string
}

func (p pair) String() string { return fmt.Sprintf("%v %q", p.of, p.qualifier) }

func Produce[T Object](c *Container, qualifier string, which ListerWatcher[T]) {
	if c.producers == nil {
		c.producers = map[pair]any{}
	}
	c.producers[pair{reflect.TypeFor[T](), qualifier}] = which
}

func Observes[T Object](c *Container, qualifier string, what func(Event[T])) {
	if c.observers == nil {
		c.observers = map[pair]func(context.Context, any){}
	}
	c.observers[pair{reflect.TypeFor[T](), qualifier}] = func(ctx context.Context, producer any) {
		Observe(ctx, producer.(ListerWatcher[T]), what)
	}
}

// Run refuses an observer without a producer, and a producer without an observer.
func (c *Container) Run(ctx context.Context) error {
	for p := range c.observers {
		if c.producers[p] == nil {
			return fmt.Errorf("no producer for %v", p)
		}
	}
	for p := range c.producers {
		if c.observers[p] == nil {
			return fmt.Errorf("no observer for %v", p)
		}
	}
	var running sync.WaitGroup
	for p, producer := range c.producers {
		running.Go(func() { c.observers[p](ctx, producer) })
	}
	running.Wait()
	return nil
}
