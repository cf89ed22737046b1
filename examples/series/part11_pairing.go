package series

import (
	"context"
	"fmt"
	"reflect"
	"sync"
)

// Container pairs producers with observers by type and qualifier while the program runs, where the
// extension of part 11 uses qualifiers alone. Go needs no container for it: Observe is one call with
// both, and does not compile with a client of one type and a function for another.
//
// Library: the call of an informer's Handle.
type Container struct {
	producers map[pair]any // a ListerWatcher of the pair's type
	observers map[pair]func(ctx context.Context, producer any)
}

type pair struct {
	of        reflect.Type
	qualifier string
}

func NewContainer() *Container {
	return &Container{map[pair]any{}, map[pair]func(context.Context, any){}}
}

// Produces says which objects there are under a qualifier.
func Produces[T Object](c *Container, qualifier string, which ListerWatcher[T]) {
	c.producers[pair{reflect.TypeFor[T](), qualifier}] = which
}

// Observes says what to do with the objects of a type under a qualifier.
func Observes[T Object](c *Container, qualifier string, what func(Event[T])) {
	c.observers[pair{reflect.TypeFor[T](), qualifier}] = func(ctx context.Context, producer any) {
		Observe(ctx, producer.(ListerWatcher[T]), what)
	}
}

// Run runs all pairs until ctx ends. It refuses an observer without a producer, which would wait in
// vain, as it does in the extension, and a producer without an observer.
func (c *Container) Run(ctx context.Context) error {
	for p := range c.observers {
		if c.producers[p] == nil {
			return fmt.Errorf("no producer of %v %q: call Produces with this type and qualifier", p.of, p.qualifier)
		}
	}
	for p := range c.producers {
		if c.observers[p] == nil {
			return fmt.Errorf("no observer of %v %q: call Observes with this type and qualifier", p.of, p.qualifier)
		}
	}
	var running sync.WaitGroup
	for p, observe := range c.observers {
		running.Go(func() { observe(ctx, c.producers[p]) })
	}
	running.Wait()
	return nil
}
