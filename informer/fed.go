package informer

import (
	"context"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// Feed fills the cache of an informer. A reflector is one; [NewFed] takes others.
type Feed interface {
	// Run fills the cache until ctx ends, and returns nil then. It is called again
	// when the informer is.
	Run(ctx context.Context) error
	// State says what the feed does. Ready takes Watching for all is well, as long
	// as Contact is not too old.
	State() reflector.State
	// Changed returns a channel that is closed when the state is another than the
	// given one, its ResourceVersion and Contact aside.
	Changed(seen reflector.State) <-chan struct{}
	// Synced returns a channel that is closed once the cache has been filled.
	Synced() <-chan struct{}
}

// Report tells the logger and the error hook of an informer what went wrong and was
// dealt with.
type Report func(ctx context.Context, err error)

// NewFed returns an informer whose cache is filled by something else than a reflector of
// this module, such as an informer of client-go's. makeFeed is called once, with the
// store that the feed is to fill, by one goroutine at a time. [WithReflector] has no
// meaning for such an informer.
func NewFed[T any](key store.KeyFunc[T], makeFeed func(into store.Store[T], report Report) Feed, opts ...Option) *Informer[T] {
	i := newInformer(key, opts)
	i.feed = newSource(makeFeed(i.into, i.report))
	return i
}

// report tells of a failure of a feed.
func (i *Informer[T]) report(ctx context.Context, err error) {
	i.logger.Warn("feed failed", zap.String("resourceVersion", i.cache.ResourceVersion()), zap.Error(err))
	i.tell(ctx, err)
}
