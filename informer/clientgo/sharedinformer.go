package clientgo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/klogging"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/guard"
	"go.uber.org/zap/zapcore"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// SharedIndexInformer is an informer with the interface of client-go's tools/cache. See the package
// documentation for the differences.
//
// Get one from [NewTyped], [NewSharedIndexInformer] or [AsSharedIndexInformer]. All methods are safe
// for concurrent use.
type SharedIndexInformer[T any] struct {
	options
	informer *informer.Informer[T]
	indexer  *Indexer[T]
	hooks    *hooks[T] // nil for an informer that was made elsewhere

	starting  sync.RWMutex // held by writes to the cache before Run, and by the start
	complaint sync.Once    // of the first write to the cache that was refused
	// isDouble reports whether the client is known to be a test double; nil for an informer that was
	// made elsewhere.
	isDouble func() bool

	// mu protects the fields below it. Lock order: starting, then mu.
	mu            sync.Mutex
	ctx           context.Context // the context of Run; nil before Run
	ended         bool            // Run has returned
	registrations []*registration

	// stopped reports whether Run was told to end; nil before Run. It is written while mu is held. Reads of
	// a cache call IsStopped, and must not wait for AddEventHandler, which waits for the writer of the cache.
	stopped atomic.Pointer[func() bool]
}

var _ cache.SharedIndexInformer = (*SharedIndexInformer[any])(nil)

// NewTyped makes an informer of a client, for code that wants an informer of client-go. It combines
// [informer.New] and [AsSharedIndexInformer], and also supports SetTransform, SetWatchErrorHandler,
// objects without a name, and writes to the cache before Run.
//
// With the environment variable KUBE_CACHE_MUTATION_DETECTOR of client-go, the informer has a guard of
// [informer.WithMutationGuard], unless the options have one. A change of a cached object then ends the process.
func NewTyped[T reflector.Object, L any](client reflector.Client[T, L], opts ...Option) *SharedIndexInformer[T] {
	return newInformer(client, &hooks[T]{}, opts)
}

func newInformer[T reflector.Object, L any](of reflector.Client[T, L], h *hooks[T], opts []Option) *SharedIndexInformer[T] {
	o := newOptions(opts)
	// The last error handler takes effect.
	own := append(slices.Clone(o.informer), informer.WithReflector(reflector.WithErrorHandler(h.failed)))
	var seeded *sync.Map
	if detectMutations {
		seeded = new(sync.Map)
		own = append([]informer.Option{informer.WithMutationGuard(guard.Report(func(err error) { crash(err, seeded) }))}, own...)
	}
	h.copies = !o.shallow && client.ListWatch[T, L](of).SharesParts()
	var objects *store.Cache[T]
	s := newSharedIndexInformer(informer.NewFed(nil, objectKey[T], func(target feed.Target[T]) feed.Group {
		objects = target.Cache
		return feed.New(reflector.New(of, decorate.Transform(target.Into, objectKey[T], h.transformed), target.Reflector...))
	}, own...), o)
	s.hooks, h.name, s.indexer.cache, s.indexer.seeded = h, s.informer.Name(), objects, seeded
	s.isDouble = func() bool {
		return !stream.CanStream(of) || errors.Is(s.informer.State().WatchListErr, stream.ErrDouble)
	}
	return s
}

// detectMutations is what client-go's mutation detector reads.
var detectMutations, _ = strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))

// crash ends the process, as client-go's mutation detector does. The informer would survive a panic of this
// goroutine, which may be that of a handler. Code that writes to the cache before the start owns what it
// writes: client-go's detector does not get it.
func crash(err error, seeded *sync.Map) {
	mutated, ok := err.(*guard.MutationError)
	if !ok {
		utilruntime.HandleError(err) // an object has no JSON, which the guard compares
		return
	}
	if _, ok := seeded.Load(mutated.Key); ok {
		return
	}
	go panic(err)
	select {}
}

// AsSharedIndexInformer shows an informer to code that wants an informer of client-go. Either the
// Run of the result or [informer.Informer.Run] may run the informer.
//
// Call it once for an informer: a second SharedIndexInformer does not know the indexes that were
// added through the first one, and cannot use their names.
func AsSharedIndexInformer[T any](i *informer.Informer[T], opts ...Option) *SharedIndexInformer[T] {
	return newSharedIndexInformer(i, newOptions(opts))
}

func newSharedIndexInformer[T any](i *informer.Informer[T], o options) *SharedIndexInformer[T] {
	s := &SharedIndexInformer[T]{options: o, informer: i, indexer: AsReadOnlyIndexer(i.Cache())}
	s.indexer.admit = s.admit
	return s
}

// Informer returns the underlying informer, for code that has moved over.
func (s *SharedIndexInformer[T]) Informer() *informer.Informer[T] { return s.informer }

// GetStore returns the informer's cache, for reading. The package documentation says when code may write
// to it.
func (s *SharedIndexInformer[T]) GetStore() cache.Store { return s.indexer }

// GetIndexer returns what GetStore returns, and also adds indexes.
func (s *SharedIndexInformer[T]) GetIndexer() cache.Indexer { return s.indexer }

// AddIndexers adds indexes, at any time until the informer has stopped: see
// [Indexer.AddIndexers].
func (s *SharedIndexInformer[T]) AddIndexers(indexers cache.Indexers) error {
	if s.IsStopped() {
		return fmt.Errorf("indexers were not added to shared informer because %w", ErrStopped)
	}
	return s.indexer.AddIndexers(indexers)
}

// Run is RunWithContext until a channel is closed, or a value is sent to it.
func (s *SharedIndexInformer[T]) Run(stop <-chan struct{}) {
	s.RunWithContext(wait.ContextForChannel(stop))
}

// RunWithContext runs the informer until ctx ends. Event handlers then process their queued events,
// for the time of [informer.WithDrainTimeout]. It works only once: a second call returns at once.
// An error of [informer.Informer.Run] goes to utilruntime.HandleErrorWithContext, where client-go
// programs look for errors. Log lines of client-go's handlers go to the logger of ctx, else to the
// logger of [informer.WithLogger], else to klog.
func (s *SharedIndexInformer[T]) RunWithContext(ctx context.Context) {
	ctx, cancel := ending(ctx)
	defer cancel()
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

// ending returns a context that ends as ctx does. The one of wait.ContextForChannel has no error after a value
// was sent to its channel, as code does that means to close it. Contexts that derive from it then panic.
func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	stop := ctx.Done()
	if ctx != wait.ContextForChannel(stop) {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(context.Background()) // the other one has no values
	select {
	case <-stop: // before the goroutine below could tell
		cancel()
		return ctx, cancel
	default:
	}
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
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
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return ErrStopped
	case s.ctx != nil:
		return lifecycle.AlreadyRunning("informer " + s.informer.Name())
	}
	s.ctx = ctx
	s.stopped.Store(new(func() bool { return ctx.Err() != nil }))
	return nil
}

func (s *SharedIndexInformer[T]) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, reflector.ErrRunning) {
		s.ctx = nil // a call of informer.Informer.Run runs it
		s.stopped.Store(nil)
		return
	}
	s.ended = true
	s.stopped.Store(new(func() bool { return true }))
	for _, r := range s.registrations {
		r.subscription.Close()
	}
	s.registrations = nil
}

// IsStopped reports whether Run of this SharedIndexInformer was told to end. An informer that runs
// by [informer.Informer.Run] may run again, and so is never stopped.
func (s *SharedIndexInformer[T]) IsStopped() bool {
	stopped := s.stopped.Load()
	return stopped != nil && (*stopped)()
}

// HasSynced reports whether the cache has been filled.
func (s *SharedIndexInformer[T]) HasSynced() bool { return cache.IsDone(s.HasSyncedChecker()) }

// HasSyncedChecker returns a checker that is done when the cache has been filled.
func (s *SharedIndexInformer[T]) HasSyncedChecker() cache.DoneChecker {
	return synced{"informer " + s.informer.Name(), s.informer.Synced()}
}

// LastSyncResourceVersion returns the resource version of the cache: the cache shows every change
// up to it. It is empty for an informer of several scopes.
func (s *SharedIndexInformer[T]) LastSyncResourceVersion() string {
	return s.informer.Cache().ResourceVersion()
}

// GetController returns a controller with the same sync state as the informer. Its Run does
// nothing, as in client-go.
func (s *SharedIndexInformer[T]) GetController() cache.Controller { return controller{s} }

// controller is the remaining Controller of a shared informer.
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

// admit lets code write to the cache before the informer starts, and beside the reflector if the client
// is a test double or the program asked for it. Any other write is [ErrReadOnly], and the first one is
// reported: tests tend to ignore the error.
func (s *SharedIndexInformer[T]) admit() (how admission, done func(), err error) {
	if s.indexer.cache != nil {
		s.starting.RLock()
		if !s.hasStarted() {
			return seeding, s.starting.RUnlock, nil
		}
		s.starting.RUnlock()
		if s.localWrites || s.isDouble() {
			return beside, func() {}, nil
		}
	}
	s.complaint.Do(func() {
		s.mu.Lock()
		ctx := s.ctx
		s.mu.Unlock()
		if ctx == nil {
			ctx = context.Background()
		}
		utilruntime.HandleErrorWithContext(s.logging(ctx), ErrReadOnly, "Write to the cache of an informer was refused",
			"informer", s.informer.Name(), "caller", callerOfIndexer())
	})
	return seeding, nil, ErrReadOnly
}

// callerOfIndexer returns the file and the line of the code that called an Indexer, or nothing.
func callerOfIndexer() string {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for inside := false; ; {
		frame, more := frames.Next()
		isIndexer := strings.Contains(frame.Function, "/clientgo.(*Indexer[")
		if inside && !isIndexer {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
		if inside = inside || isIndexer; !more {
			return ""
		}
	}
}

// hasStarted reports whether Run was called, of this SharedIndexInformer or of the informer.
func (s *SharedIndexInformer[T]) hasStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startedLocked()
}

func (s *SharedIndexInformer[T]) startedLocked() bool {
	return s.ctx != nil || s.informer.State() != (reflector.State{Phase: reflector.Stopped})
}

// NewInformerWithOptions is cache.NewInformerWithOptions: an informer with one handler. The
// controller runs it. Its HasSynced means that the handler got the objects of the first list. The
// Store is a cache.Indexer. The option MinWatchTimeout has no effect: a watch lasts five to ten
// minutes. NewInformerWithOptions panics if an indexer has no function.
func NewInformerWithOptions(options cache.InformerOptions) (cache.Store, cache.Controller) {
	return newController(options)
}

// NewInformer is cache.NewInformer: see [NewInformerWithOptions].
func NewInformer(lw cache.ListerWatcher, example apiruntime.Object, resync time.Duration, handler cache.ResourceEventHandler) (cache.Store, cache.Controller) {
	return newController(cache.InformerOptions{ListerWatcher: lw, ObjectType: example, ResyncPeriod: resync, Handler: handler})
}

// NewIndexerInformer is cache.NewIndexerInformer: see [NewInformerWithOptions].
func NewIndexerInformer(lw cache.ListerWatcher, example apiruntime.Object, resync time.Duration, handler cache.ResourceEventHandler, indexers cache.Indexers) (cache.Indexer, cache.Controller) {
	return newController(cache.InformerOptions{ListerWatcher: lw, ObjectType: example, ResyncPeriod: resync, Handler: handler, Indexers: indexers})
}

func newController(options cache.InformerOptions) (cache.Indexer, cache.Controller) {
	s := NewSharedIndexInformerWithOptions(options.ListerWatcher, options.ObjectType, cache.SharedIndexInformerOptions{
		ResyncPeriod: options.ResyncPeriod, Indexers: options.Indexers,
		Identifier: options.Identifier, InformerMetricsProvider: options.InformerMetricsProvider,
	})
	c := handling{SharedInformer: s, logger: options.Logger, handled: s}
	_ = s.SetTransform(options.Transform) // these fail only after the start
	if options.Handler != nil {
		c.handled, _ = s.AddEventHandler(options.Handler)
	}
	return s.GetIndexer(), c
}

// handling is the controller of an informer with one handler.
type handling struct {
	cache.SharedInformer
	logger  *klog.Logger // nil for the logger of the context
	handled cache.ResourceEventHandlerRegistration
}

func (c handling) Run(stop <-chan struct{}) { c.RunWithContext(wait.ContextForChannel(stop)) }

func (c handling) RunWithContext(ctx context.Context) {
	if c.logger != nil {
		ended, cancel := ending(ctx)
		defer cancel()
		ctx = klog.NewContext(ended, *c.logger)
	}
	c.SharedInformer.RunWithContext(ctx)
}

func (c handling) HasSynced() bool                     { return c.handled.HasSynced() }
func (c handling) HasSyncedChecker() cache.DoneChecker { return c.handled.HasSyncedChecker() }

// Option configures a [SharedIndexInformer].
type Option interface{ applyTo(*options) }

type options struct {
	informer    []informer.Option
	handlers    []informer.SubscriptionOption
	resync      time.Duration
	shallow     bool
	localWrites bool
}

type optionFunc func(*options)

func (f optionFunc) applyTo(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{handlers: []informer.SubscriptionOption{informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll))}}
	for _, opt := range opts {
		opt.applyTo(&o)
	}
	return o
}

// WithInformer passes options to the informer that [NewTyped] makes, such as
// [informer.WithReflector]. Failures of its reflector go to the handler of SetWatchErrorHandler. A
// hook of [informer.WithErrorHandler] gets only the failures of event handlers. The option has no
// effect on [AsSharedIndexInformer].
func WithInformer(opts ...informer.Option) Option {
	return optionFunc(func(o *options) { o.informer = append(o.informer, opts...) })
}

// WithHandlers passes options to the subscription of every event handler. The most useful one is
// informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepLatest)): it bounds the memory of a
// slow handler. The handler then no longer gets each state of an object, and misses objects that
// were created and deleted before it saw them.
func WithHandlers(opts ...informer.SubscriptionOption) Option {
	return optionFunc(func(o *options) { o.handlers = append(o.handlers, opts...) })
}

// WithResync sets the resync period of event handlers without their own period: see
// [informer.WithResync]. The default is no resync.
func WithResync(period time.Duration) Option {
	return optionFunc(func(o *options) { o.resync = period })
}

// WithShallowTransform says that the transform only sets fields of its object, such as the managed
// fields to nil, and edits no map, no slice and nothing behind a pointer. It then gets the object itself
// instead of a deep copy, which takes less CPU.
func WithShallowTransform() Option {
	return optionFunc(func(o *options) { o.shallow = true })
}

// WithLocalWrites lets code write to the cache after the start although the client is no test double,
// for example in a test with a server of its own. Such a write sends no event, and the next event or
// list of the reflector overrides it. The option has no effect on [AsSharedIndexInformer].
func WithLocalWrites() Option {
	return optionFunc(func(o *options) { o.localWrites = true })
}
