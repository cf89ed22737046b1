package informer

import (
	"context"
	"errors"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// Backing is a cache with a store behind it. An informer uses it instead of its own cache: see
// [NewStored]. A *persist.Store is a Backing.
type Backing[T any] interface {
	store.BatchStore[T]

	// Cache returns the cache that shows the written objects.
	Cache() *store.Cache[T]

	// Partition returns the store to write to instead of [store.Cache.Partition].
	Partition(scope store.Scope) (store.BatchStore[T], error)

	// Run does the work of the backing until ctx ends. An earlier error ends the informer.
	Run(ctx context.Context) error
}

// errBackingAbandoned is the error of a backing whose Run does not return.
var errBackingAbandoned = errors.New("store behind the cache ended by runtime.Goexit")

// NewStored returns an informer that fills your store and shows its contents. An example is a
// *persist.Store, which holds the objects of an earlier process: they can be read before Run is
// called, and subscribers get them first. The informer's Run calls the Run of the store, and ends
// it after the reflector has ended. The informer uses the KeyFunc of the store. A store serves one
// informer at a time. A nil store panics.
func NewStored[T reflector.Object, L any](client reflector.Client[T, L], backing Backing[T], opts ...Option) *Informer[T] {
	return newReflecting(newStored(backing, opts), client)
}

func newStored[T any](backing Backing[T], opts []Option) *Informer[T] {
	i := newInformer(backing.Cache(), opts)
	i.backing, i.into = backing, backing
	return i
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
		err := errBackingAbandoned // remains if Run calls runtime.Goexit
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
