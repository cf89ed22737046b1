package clientgo

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/klogging"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap/zapcore"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// SharedIndexInformer is an informer as client-go's tools/cache knows it. See the
// package documentation for what is the same and what is not.
//
// Get one from [NewSharedIndexInformer] or [AsSharedIndexInformer]. All methods are safe
// for concurrent use.
type SharedIndexInformer[T any] struct {
	options
	informer *informer.Informer[T]
	indexer  *Indexer[T]
	hooks    *hooks[T] // nil unless the informer was made for this

	// mu protects the fields below it.
	mu            sync.Mutex
	ctx           context.Context // that of Run; nil before
	ended         bool            // Run has returned
	registrations []*registration
}

var _ cache.SharedIndexInformer = (*SharedIndexInformer[any])(nil)

// NewSharedIndexInformer makes an informer of a client, for code that wants one of
// client-go's. It is [informer.New] and [AsSharedIndexInformer] in one, and knows
// SetTransform and SetWatchErrorHandler as well.
func NewSharedIndexInformer[T reflector.Object, L any](client reflector.Client[T, L], opts ...Option) *SharedIndexInformer[T] {
	o := newOptions(opts)
	h := &hooks[T]{}
	// The last error hook counts.
	own := append(slices.Clone(o.informer), informer.WithReflector(reflector.WithErrorHook(h.failed)))
	s := newSharedIndexInformer(informer.NewTransformed(client, h.transformed, store.ObjectKey[T], own...), o)
	s.hooks, h.name = h, s.informer.Name()
	return s
}

// AsSharedIndexInformer shows an informer to code that wants one of client-go's. It does
// not matter who runs the informer: such code, by Run of what is returned, or
// [informer.Informer.Run].
//
// Call it once for an informer: an index that was added through one
// SharedIndexInformer is not known to another one, and its name is taken.
func AsSharedIndexInformer[T any](i *informer.Informer[T], opts ...Option) *SharedIndexInformer[T] {
	return newSharedIndexInformer(i, newOptions(opts))
}

func newSharedIndexInformer[T any](i *informer.Informer[T], o options) *SharedIndexInformer[T] {
	return &SharedIndexInformer[T]{options: o, informer: i, indexer: AsReadOnlyIndexer(i.Cache())}
}

// Informer returns the informer behind it, for code that has been moved over.
func (s *SharedIndexInformer[T]) Informer() *informer.Informer[T] { return s.informer }

// GetStore returns the informer's cache, for reading.
func (s *SharedIndexInformer[T]) GetStore() cache.Store { return s.indexer }

// GetIndexer returns the informer's cache, for reading and for adding indexes.
func (s *SharedIndexInformer[T]) GetIndexer() cache.Indexer { return s.indexer }

// AddIndexers adds indexes, at any time until the informer has stopped: see
// [Indexer.AddIndexers].
func (s *SharedIndexInformer[T]) AddIndexers(indexers cache.Indexers) error {
	if s.IsStopped() {
		return ErrStopped
	}
	return s.indexer.AddIndexers(indexers)
}

// Run is RunWithContext until a channel is closed.
func (s *SharedIndexInformer[T]) Run(stop <-chan struct{}) {
	s.RunWithContext(wait.ContextForChannel(stop))
}

// RunWithContext runs the informer until ctx ends. Event handlers then get what is
// queued for them, for as long as [informer.WithDrainTimeout] says. It is for once: a
// second call returns at once. What [informer.Informer.Run] returns goes to
// utilruntime.HandleErrorWithContext, where client-go programs look for errors. The lines of
// client-go's handlers go to the logger of ctx, else to that of [informer.WithLogger], else to klog.
func (s *SharedIndexInformer[T]) RunWithContext(ctx context.Context) {
	ctx = s.logging(ctx)
	if err := s.start(ctx); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Informer was not started", "informer", s.informer.Name())
		return
	}
	var err error
	defer func() { s.end(err) }() // also after a panic
	if err = s.informer.Run(ctx); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Informer ended", "informer", s.informer.Name())
	}
}

// logging returns ctx with the informer's logger, if there is one and ctx has none.
func (s *SharedIndexInformer[T]) logging(ctx context.Context) context.Context {
	logger := s.informer.Logger()
	if _, err := logr.FromContext(ctx); err == nil || !logger.Core().Enabled(zapcore.ErrorLevel) {
		return ctx
	}
	return logr.NewContext(ctx, logr.FromSlogHandler(klogging.Handler(logger)))
}

func (s *SharedIndexInformer[T]) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return ErrStopped
	case s.ctx != nil:
		return informer.ErrRunning
	}
	s.ctx = ctx
	return nil
}

func (s *SharedIndexInformer[T]) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, informer.ErrRunning) {
		s.ctx = nil // somebody else runs it
		return
	}
	s.ended = true
	for _, r := range s.registrations {
		r.subscription.Close()
	}
	s.registrations = nil
}

// IsStopped reports whether Run of this SharedIndexInformer has been told to end. An
// informer that somebody runs by [informer.Informer.Run] may be run again, and so is
// never stopped.
func (s *SharedIndexInformer[T]) IsStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stoppedLocked()
}

func (s *SharedIndexInformer[T]) stoppedLocked() bool {
	return s.ended || s.ctx != nil && s.ctx.Err() != nil
}

// HasSynced reports whether the cache has been filled.
func (s *SharedIndexInformer[T]) HasSynced() bool { return cache.IsDone(s.HasSyncedChecker()) }

// HasSyncedChecker returns what is done when the cache has been filled.
func (s *SharedIndexInformer[T]) HasSyncedChecker() cache.DoneChecker {
	return synced{"informer " + s.informer.Name(), s.informer.Synced()}
}

// LastSyncResourceVersion returns the resource version of the cache: all that happened
// up to it is visible there. It is empty for an informer of several scopes.
func (s *SharedIndexInformer[T]) LastSyncResourceVersion() string {
	return s.informer.Cache().ResourceVersion()
}

// GetController returns something that tells the same as the informer and whose Run does
// nothing, as in client-go.
func (s *SharedIndexInformer[T]) GetController() cache.Controller { return controller{s} }

// controller is what is left of a shared informer's Controller.
type controller struct{ of cache.SharedInformer }

func (controller) Run(<-chan struct{})                   {}
func (controller) RunWithContext(context.Context)        {}
func (c controller) HasSynced() bool                     { return c.of.HasSynced() }
func (c controller) HasSyncedChecker() cache.DoneChecker { return c.of.HasSyncedChecker() }
func (c controller) LastSyncResourceVersion() string     { return c.of.LastSyncResourceVersion() }

// synced is a DoneChecker.
type synced struct {
	name string
	done <-chan struct{}
}

func (s synced) Name() string          { return s.name }
func (s synced) Done() <-chan struct{} { return s.done }
