package clientgo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// FromSharedInformer returns an informer whose cache is filled by an informer of client-go, or by
// any other cache.SharedInformer. Subscribers and indexes work as with [informer.New], there is no
// second watch, and the objects are the same pointers. key is the KeyFunc of the objects, such as
// [store.ObjectKey].
//
// The program must start the shared informer, before or after, and must also run the new informer.
// The name is "shared " and the Go type unless [informer.WithName] sets another one.
func FromSharedInformer[T any](shared cache.SharedInformer, key store.KeyFunc[T], opts ...informer.Option) *informer.Informer[T] {
	opts = append([]informer.Option{informer.WithName("shared " + typeName[T]())}, opts...)
	return informer.NewFed(nil, allNamed(key), func(target feed.Target[T]) feed.Group {
		return feed.New(NewFeed(shared, target.Into, target.Report))
	}, opts...)
}

// Feed fills a store from a shared informer of client-go. [FromSharedInformer] uses it. It can also
// feed a controller.
//
// When the shared informer has its first objects, the feed replaces the content of the store. It
// uses a resource version that is not newer than these objects. It then writes every event to the
// store, except for updates without a change, as a relist and a resync of client-go bring them. If
// the store rejects an object, the feed reports it and retries with the next event of the object,
// even if that event is such an update.
//
// client-go hides three facts from its event handlers, so a Feed does not know them:
//
//   - Bookmarks: the resource version advances only with the objects.
//   - Relists: during a relist, the version may be ahead of some objects.
//   - Whether the watch works.
//
// Create one with [NewFeed]. All methods are safe for concurrent use.
type Feed[T any] struct {
	from   cache.SharedInformer
	to     store.Store[T]
	report func(context.Context, error)

	// mu protects the fields below it, and is held while the store is written.
	mu      sync.Mutex
	run     *feedRun[T]        // nil unless Run runs
	missing map[store.Key]bool // the objects that could not be stored

	status *lifecycle.Status[reflector.State]
	synced *lifecycle.Latch
}

// feedRun is the state of one call of Run. Guarded by Feed.mu.
type feedRun[T any] struct {
	ctx context.Context
	// first collects the objects until all first objects are known. It is nil afterwards.
	first map[store.Key]T
	// version is a version that is not newer than first.
	version string
}

// stopPoll is how often a feed checks whether a shared informer of client-go 0.36 has ended.
const stopPoll = time.Second

// Operations that fail: see [reflector.Error].
const (
	opStore     = "store"
	opWatch     = "watch"
	opWatchList = "watch-list"
)

var _ feed.Feed = (*Feed[any])(nil)

// NewFeed returns a feed that fills a store from a shared informer. It calls report with each
// failure: a [*reflector.Error] with the operation "store", for an object that is no T or that the
// store rejected. report may be nil.
func NewFeed[T any](from cache.SharedInformer, to store.Store[T], report func(context.Context, error)) *Feed[T] {
	if report == nil {
		report = func(context.Context, error) {}
	}
	same := func(a, b *reflector.State) bool {
		return a.Phase == b.Phase && a.Since.Equal(b.Since) && a.Err == b.Err
	}
	return &Feed[T]{
		from: from, to: to, report: report, synced: lifecycle.NewLatch(),
		status: lifecycle.NewStatus(reflector.State{Phase: reflector.Stopped}, same),
	}
}

// Run fills the store until ctx ends, and then returns nil. It writes nothing after that. It
// returns these errors: one that wraps [ErrStopped] when the shared informer ends first, or has ended, one if the
// store fails to take the first objects, [ErrNoSharedInformer] or [reflector.ErrNoStore] if one of
// them is nil, and [reflector.ErrRunning] if it is already running. It may be called again.
func (f *Feed[T]) Run(ctx context.Context) error {
	if f.from == nil {
		return ErrNoSharedInformer
	} else if f.to == nil {
		return reflector.ErrNoStore
	}
	r, err := f.start(ctx)
	if err != nil {
		return err
	}
	defer f.stop()
	handle, err := f.from.AddEventHandlerWithResyncPeriod(handler[T]{f, r}, 0)
	switch {
	case err != nil && (ctx.Err() != nil || f.from.IsStopped()):
		return f.ended(ctx) // the error of client-go wraps none
	case err != nil:
		return fmt.Errorf("add a handler to the shared informer: %w", err)
	}
	// It fails for a registration that is not the shared informer's own.
	defer func() { _ = f.from.RemoveEventHandler(handle) }()

	var ended <-chan struct{}
	var look <-chan time.Time
	if h, ok := handle.(interface{ ShutdownChan() <-chan struct{} }); ok {
		ended = h.ShutdownChan()
	} else { // client-go 0.36 has no such channel
		ticker := time.NewTicker(stopPoll)
		defer ticker.Stop()
		look = ticker.C
	}
	filled := handle.HasSyncedChecker().Done()
	for {
		select {
		case <-filled:
			if err := f.fill(r); err != nil {
				return err
			}
			filled = nil
		case <-look:
			if f.from.IsStopped() {
				return f.ended(ctx)
			}
		case <-ended:
			return f.ended(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// ended returns the result of Run after the end of the shared informer.
func (f *Feed[T]) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("feed from the shared informer of %s ended because %w", typeName[T](), ErrStopped)
}

func (f *Feed[T]) start(ctx context.Context) (*feedRun[T], error) {
	// Read the version before the handler is added: no later event is older. It is the version of
	// the shared informer's store, which is never ahead of the objects.
	version := f.from.GetStore().LastStoreSyncResourceVersion()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run != nil {
		return nil, lifecycle.AlreadyRunning("feed of " + typeName[T]())
	}
	f.run = &feedRun[T]{ctx: ctx, first: map[store.Key]T{}, version: version}
	f.missing = map[store.Key]bool{}
	f.status.Set(func(s *reflector.State) { s.Phase, s.Since, s.Err = reflector.Listing, time.Now(), nil })
	return f.run, nil
}

func (f *Feed[T]) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = nil
	f.status.Set(func(s *reflector.State) { s.Phase, s.Since = reflector.Stopped, time.Now() })
}

// fill replaces the store's content with the first objects. It returns an error if the store could
// not be filled.
func (f *Feed[T]) fill(r *feedRun[T]) error {
	var fatal error
	filled := false
	f.do(r, func() (store.Key, error) {
		objects := make([]T, 0, len(r.first))
		for _, key := range slices.SortedFunc(maps.Keys(r.first), store.Key.Compare) {
			objects = append(objects, r.first[key])
		}
		err := f.to.Replace(objects, r.version)
		if made, _ := outcome(err); !made {
			fatal = fmt.Errorf("store the first objects of a shared informer of %s: %w", typeName[T](), err)
			return store.Key{}, nil // returned, so not reported
		}
		r.first, filled = nil, true
		return store.Key{}, err
	})
	if filled { // after do has set the version and the error, so that no reader sees Watching without them
		f.status.Set(func(s *reflector.State) { s.Phase, s.Since = reflector.Watching, time.Now() })
		f.synced.Set()
	}
	return fatal
}

// outcome interprets an error of a store. made reports whether the write happened, except for the
// missing objects.
func outcome(err error) (made bool, missing []store.Key) {
	if rejected, ok := errors.AsType[*store.RejectedError](err); ok {
		for _, r := range rejected.Rejections {
			missing = append(missing, r.Key)
		}
		return true, missing
	}
	return err == nil, nil
}

// do makes a write, unless its Run has ended, and reports a failure. The key is the key of the
// object, or zero for many objects.
func (f *Feed[T]) do(r *feedRun[T], write func() (store.Key, error)) {
	if failure := f.locked(r, write); failure != nil {
		f.report(r.ctx, failure) // not under the lock: report may ask for the state
	}
}

func (f *Feed[T]) locked(r *feedRun[T], write func() (store.Key, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run != r {
		return nil
	}
	key, err := write()
	version := f.to.ResourceVersion()
	made, missing := outcome(err)
	if !made {
		missing = []store.Key{key}
	}
	delete(f.missing, key)
	for _, key := range missing {
		f.missing[key] = true
	}
	var failure error
	f.status.Set(func(s *reflector.State) {
		s.ResourceVersion = version
		if err != nil {
			failure = &reflector.Error{Reflector: "feed of " + typeName[T](), Op: opStore, Key: key, ResourceVersion: version, Err: err}
			s.Err, s.LastErr, s.LastErrTime = failure, failure, time.Now()
		} else if len(f.missing) == 0 {
			s.Err = nil
		}
	})
	return failure
}

// State returns the state of the feed: Listing until the shared informer has its first objects, and
// Watching from then on. Err is the last store failure, as long as the store lacks an object.
//
// While the feed runs, LastContact is the current time: client-go does not show whether its watch
// works.
func (f *Feed[T]) State() reflector.State {
	state := f.status.Get()
	if state.Phase != reflector.Stopped {
		state.LastContact = time.Now()
	}
	return state
}

// Changed returns a channel that is closed when the state differs from the given one. It ignores
// ResourceVersion and LastContact.
func (f *Feed[T]) Changed(seen reflector.State) <-chan struct{} { return f.status.Changed(seen) }

// Synced returns a channel that is closed once the store has been filled.
func (f *Feed[T]) Synced() <-chan struct{} { return f.synced.Done() }

// handler is the event handler of a Feed at a shared informer. It takes any because it is a
// cache.ResourceEventHandler, whose objects may be tombstones.
type handler[T any] struct {
	of  *Feed[T]
	run *feedRun[T]
}

var _ cache.ResourceEventHandler = handler[any]{}

func (h handler[T]) OnAdd(object any, _ bool) { h.put(object, false, h.of.to.Add) }

func (h handler[T]) OnUpdate(prior, object any) {
	h.put(object, unchanged(prior, object), h.of.to.Update)
}

// put stores an existing object. It skips a known state, unless the store lacks the object.
func (h handler[T]) put(object any, known bool, write func(T) error) {
	h.of.do(h.run, func() (store.Key, error) {
		key, err := h.of.keyOf(object)
		if err != nil || known && !h.of.missing[key] {
			return key, err
		}
		t, err := typed[T](object)
		if err != nil || h.run.first == nil {
			if err == nil {
				err = write(t)
			}
			return key, err
		}
		h.run.first[key] = t
		h.run.saw(object)
		return key, nil
	})
}

func (h handler[T]) OnDelete(object any) {
	h.of.do(h.run, func() (store.Key, error) {
		key, err := h.of.keyOf(object)
		switch {
		case err != nil:
			return key, err
		case h.run.first != nil:
			delete(h.run.first, key)
			h.run.saw(object)
			return key, nil
		}
		if _, lost := object.(cache.DeletedFinalStateUnknown); lost {
			return key, h.of.to.DeleteKey(key) // its object is not the final state
		}
		t, err := typed[T](object)
		if err != nil {
			return key, h.of.to.DeleteKey(key) // it was never stored
		}
		return key, h.of.to.Delete(t)
	})
}

// saw records the version of an object: events come in the order of versions.
func (r *feedRun[T]) saw(object any) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return
	}
	version := accessor.GetResourceVersion()
	if r.version == "" {
		r.version = version
	} else if order, err := resourceversion.CompareResourceVersion(version, r.version); err == nil && order > 0 {
		r.version = version
	}
}

// keyOf returns the key of an object, by the store's KeyOf if it has one. For a
// DeletedFinalStateUnknown it returns the key of the contained object, if there is one.
func (f *Feed[T]) keyOf(object any) (store.Key, error) {
	inner := object
	if lost, ok := object.(cache.DeletedFinalStateUnknown); ok {
		inner = lost.Obj
	}
	t, isT := inner.(T)
	keyed, says := f.to.(interface{ KeyOf(T) (store.Key, error) })
	if isT && says {
		return keyed.KeyOf(t)
	}
	text, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	return namespaced("", text), err
}

// unchanged reports whether an update changes nothing.
func unchanged(prior, object any) bool {
	return store.VersionOf(prior) == store.VersionOf(object) && store.EqualContent(prior, object)
}
