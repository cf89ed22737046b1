package feed

import (
	"context"
	"errors"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// ErrAbandoned is the failure of a feed whose Run did not return.
var ErrAbandoned = errors.New("reflector ended by a panic or by runtime.Goexit")

// Feed fills the cache of an informer. A reflector is a Feed.
type Feed interface {
	// Run fills the cache until ctx ends, and then returns nil. Each Run of the informer calls it.
	Run(ctx context.Context) error
	// State returns the state of the feed. For Ready, the phase Watching means that the feed works,
	// as long as LastContact is not too old.
	State() reflector.State
	// Changed returns a channel that is closed when the state differs from the given one. It
	// ignores ResourceVersion and LastContact.
	Changed(seen reflector.State) <-chan struct{}
	// Synced returns a channel that is closed once the cache has been filled.
	Synced() <-chan struct{}
}

// Group is one Feed, or one for each part of the cache.
type Group interface {
	Feed
	// Sources returns the feeds, in the order in which they were added.
	Sources() []*Source
}

// Target is the informer that a feed fills.
type Target[T any] struct {
	Name  string
	Cache *store.Cache[T]
	// Into is the store to fill: the cache, or the store behind it. Only one goroutine at a time
	// may write to it.
	Into store.BatchStore[T]
	// Partition returns the part of Into for one scope.
	Partition func(store.Scope) (store.Store[T], error)
	// Report sends an error that the feed has dealt with to the logger and the error handler of the
	// informer.
	Report func(ctx context.Context, err error)
	// Reflector are the informer's options for a reflector.
	Reflector []reflector.Option
}
