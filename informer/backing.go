package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/store"
)

// Backing is a cache with something behind it, which an informer is to use instead of
// one of its own: see [WithStore]. A *persist.Store is one.
type Backing[T any] interface {
	store.BatchStore[T]

	// Cache returns the cache that shows what is written.
	Cache() *store.Cache[T]

	// Partition returns what is written to in place of [store.Cache.Partition].
	Partition(scope store.Scope) (store.BatchStore[T], error)

	// Run does what the backing has to do, until ctx ends. An error before that ends
	// the informer.
	Run(ctx context.Context) error
}

// WithStore makes an informer fill a store of yours and show what that holds, such as
// a *persist.Store, which has what an earlier process held: that can be read before
// Run is called, and subscribers are told of it first. Run of the informer calls that of the
// store, and ends it when the reflector has ended. The KeyFunc is the one that the store was made with.
//
// A store serves one informer at a time. Its T must be that of the informer's cache; else
// Run returns a [*BackingError].
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
	// Have is the Go type of the store, and Want that of the informer's objects.
	Have, Want string
}

// Error names both types.
func (e *BackingError) Error() string {
	return fmt.Sprintf("informer %s: the store of WithStore is a %s, which does not hold objects of type %s", e.Informer, e.Have, e.Want)
}

// back makes the store that was given the one that is filled, and else a cache.
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

// part returns what is written to for one scope.
func (i *Informer[T]) part(scope store.Scope) (store.Store[T], error) {
	if i.backing != nil {
		return i.backing.Partition(scope)
	}
	return i.cache.Partition(scope)
}

// support runs the backing, if there is one, until end is called. A failure ends the
// feed; result waits for the end and returns it.
func (i *Informer[T]) support(r *run[T]) (end func(), result func() error) {
	if i.backing == nil {
		return func() {}, func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.feeding))
	ended := make(chan error, 1)
	go func() {
		// Also if it ends the goroutine: nobody would end the feed otherwise, nor Run.
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
