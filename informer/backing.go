package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/store"
)

// Backing is a cache with a store behind it. An informer uses it instead of its own cache: see
// [WithStore]. A *persist.Store is a Backing.
type Backing[T any] interface {
	store.BatchStore[T]

	// Cache returns the cache that shows the written objects.
	Cache() *store.Cache[T]

	// Partition returns the store to write to instead of [store.Cache.Partition].
	Partition(scope store.Scope) (store.BatchStore[T], error)

	// Run does the work of the backing until ctx ends. An earlier error ends the informer.
	Run(ctx context.Context) error
}

// WithStore makes an informer fill your store and show its contents. An example is a
// *persist.Store, which holds the objects of an earlier process: they can be read before Run is
// called, and subscribers get them first. The informer's Run calls the Run of the store, and ends
// it after the reflector has ended. The informer uses the KeyFunc of the store.
//
// A store serves one informer at a time. Its T must be the T of the informer's cache, otherwise Run
// returns a [*BackingError].
func WithStore[T any](backing Backing[T]) Option {
	return optionFunc(func(o *options) { o.backing = backing })
}

// ErrBackingEnded means that the Run of a [Backing] did not return but ended its goroutine, as
// runtime.Goexit does. The informer ends.
var ErrBackingEnded = errors.New("store of WithStore ended the goroutine that its Run was called on")

// BackingError says that an informer was given a store for objects of another type.
type BackingError struct {
	// Informer is the informer's name: see [WithName].
	Informer string
	// Have is the Go type of the store. Want is the Go type of the informer's objects.
	Have, Want string
}

// Error names both types.
func (e *BackingError) Error() string {
	return fmt.Sprintf("informer %s: the store of WithStore is a %s, which does not hold objects of type %s", e.Informer, e.Have, e.Want)
}

// back makes the informer fill the store of [WithStore], or else a cache.
func (i *Informer[T]) back(key store.KeyFunc[T]) {
	switch backing := i.options.backing.(type) {
	case nil:
	case Backing[T]:
		i.backing, i.cache, i.into = backing, backing.Cache(), backing
		return
	default:
		i.broken = &BackingError{Informer: i.name, Have: fmt.Sprintf("%T", backing), Want: reflect.TypeFor[T]().String()}
	}
	i.cache = store.New(key)
	i.into = i.cache
}

// part returns the store for one scope.
func (i *Informer[T]) part(scope store.Scope) (store.Store[T], error) {
	if i.backing != nil {
		return i.backing.Partition(scope)
	}
	return i.cache.Partition(scope)
}

// support runs the backing, if there is one, until end is called. An error of the backing ends the
// feed. result waits for the backing to end and returns its error.
func (i *Informer[T]) support(r *run[T]) (end func(), result func() error) {
	if i.backing == nil {
		return func() {}, func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.feeding))
	ended := make(chan error, 1)
	go func() {
		// The deferred function also runs after runtime.Goexit: without it, the feed and Run would
		// not end.
		err := ErrBackingEnded
		defer func() {
			if err != nil {
				r.stopFeeding()
			}
			ended <- err
		}()
		err = i.backing.Run(ctx)
	}()
	return cancel, func() error { return <-ended }
}
