package informer

import (
	"context"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// Feed fills the cache of an informer. A reflector is a Feed; [NewFed] takes others.
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

// Report sends an error that the feed has dealt with to the logger and the error handler of an
// informer.
type Report func(ctx context.Context, err error)

// NewFed returns an informer whose cache is filled by a Feed that is not a reflector of this
// module, such as an informer of client-go. NewFed calls makeFeed once, with the store to fill.
// Only one goroutine at a time may write to that store. [WithReflector] has no effect on such an
// informer.
func NewFed[T any](key store.KeyFunc[T], makeFeed func(into store.Store[T], report Report) Feed, opts ...Option) *Informer[T] {
	i := newInformer(store.New(key), opts)
	i.feed = newSource(makeFeed(i.into, i.report))
	return i
}

// report reports a failure of a feed.
func (i *Informer[T]) report(ctx context.Context, err error) {
	i.logger.Warn("feed failed", zap.String("resourceVersion", i.cache.ResourceVersion()), zap.Error(err))
	i.tell(ctx, err)
}
