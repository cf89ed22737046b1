package clientgo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/deepcopy"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// registration is a registered event handler.
type registration struct {
	// of is the handler's informer.
	of           any             // a *SharedIndexInformer of some type
	filled       <-chan struct{} // the Synced channel of the informer
	subscription subscription
	name         string
	both         func() <-chan struct{} // is closed after filled and Synced of the subscription
	removed      atomic.Bool            // before it was synced
}

// subscription is an informer.Subscription of any type.
type subscription interface {
	Name() string
	Synced() <-chan struct{}
	Done() <-chan struct{}
	Close()
}

// HasSynced reports whether the informer has synced, and the handler got every object of the first list,
// or every object that the cache held when the handler was added. It stays false for a handler that was
// removed before.
func (r *registration) HasSynced() bool {
	return !r.removed.Load() && lifecycle.IsClosed(r.filled) && lifecycle.IsClosed(r.subscription.Synced())
}

func (r *registration) HasSyncedChecker() cache.DoneChecker { return handled{r} }

// handled is the DoneChecker of a registration.
type handled struct{ *registration }

func (h handled) Name() string { return h.name }

func (h handled) Done() <-chan struct{} {
	if own := h.subscription.Synced(); h.removed.Load() {
		return nil // is never closed
	} else if lifecycle.IsClosed(h.filled) {
		return own
	}
	return h.both() // filled would close after a removal, too
}

// wait returns a channel that is closed when the registration is synced. The goroutine ends with the
// subscription, because a removed handler is never synced.
func (r *registration) wait() <-chan struct{} {
	both := make(chan struct{})
	go func() {
		for _, one := range [...]<-chan struct{}{r.filled, r.subscription.Synced()} {
			select {
			case <-one:
			case <-r.subscription.Done():
				if !lifecycle.IsClosed(one) {
					return
				}
			}
		}
		if r.HasSynced() {
			close(both)
		}
	}()
	return both
}

// ShutdownChan is the channel that cache.ShutDownEventHandler waits for.
func (r *registration) ShutdownChan() <-chan struct{} { return r.subscription.Done() }

// AddEventHandler adds a handler, with the resync period of [WithResync].
func (s *SharedIndexInformer[T]) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with its own resync period; 0 means no resync.
func (s *SharedIndexInformer[T]) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler, at any time until the informer has stopped. The
// handler gets the existing objects as initial additions, and then every change. It returns
// [ErrNoHandler] or [ErrStopped].
func (s *SharedIndexInformer[T]) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if handler == nil {
		return nil, ErrNoHandler
	}
	opts := append([]informer.SubscriptionOption{informer.WithResync(s.resync)}, s.handlers...)
	if options.ResyncPeriod != nil {
		opts = append(opts, informer.WithResync(*options.ResyncPeriod))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.IsStopped() {
		return nil, fmt.Errorf("handler %T was not added to shared informer because %w", handler, ErrStopped)
	}
	sub := s.informer.Handle(caller[T]{handler, options}, opts...)
	r := &registration{of: s, filled: s.informer.Synced(), subscription: sub, name: fmt.Sprintf("informer %s, handler %s (%T)", s.informer.Name(), sub.Name(), handler)}
	r.both = sync.OnceValue(r.wait)
	s.registrations = append(s.registrations, r)
	return r, nil
}

// RemoveEventHandler removes a handler. No further call of the handler begins. A running call may
// continue, and cache.ShutDownEventHandler waits for its end. RemoveEventHandler may be called more
// than once, and from the handler. It ignores a registration of another informer, for which
// ShutDownEventHandler would then wait for ever, as in client-go. For a registration that is not
// from this package it returns [ErrRegistration].
func (s *SharedIndexInformer[T]) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("%w: it is a %T", ErrRegistration, handle)
	}
	if r.of != any(s) {
		return nil
	}
	s.mu.Lock()
	s.registrations = slices.DeleteFunc(s.registrations, func(other *registration) bool { return other == r })
	s.mu.Unlock()
	if !r.HasSynced() {
		r.removed.Store(true)
	}
	r.subscription.Close()
	return nil
}

// caller calls an event handler of client-go.
type caller[T any] struct {
	handler cache.ResourceEventHandler
	options cache.HandlerOptions
}

// Handle implements [informer.Handler]. A panic goes to utilruntime.PanicHandlers, as in client-go.
// If utilruntime.ReallyCrash is set, the panic continues, and the informer turns it into a failure.
func (c caller[T]) Handle(ctx context.Context, event eventqueue.Event[T]) error {
	if c.options.Logger != nil {
		defer utilruntime.HandleCrashWithLogger(*c.options.Logger)
	} else {
		defer utilruntime.HandleCrashWithContext(ctx)
	}
	switch event.Type {
	case eventqueue.Addition:
		c.handler.OnAdd(event.Object, event.Initial)
	case eventqueue.Modification:
		c.handler.OnUpdate(event.Prior, event.Object)
	case eventqueue.Deletion:
		if event.FinalStateKnown {
			c.handler.OnDelete(event.Object)
		} else {
			c.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: keyText(event.Key), Obj: event.Object})
		}
	}
	return nil
}

// hooks are the functions that client-go allows to set after an informer was made. The reflector
// reads them.
type hooks[T any] struct {
	name string // the informer's name
	// prepare runs for each object before the transform. It may be nil.
	prepare func(T) (T, error)
	// copies is true if objects share parts, so that a transform needs a copy.
	copies    bool
	transform atomic.Pointer[cache.TransformFunc]
	watch     atomic.Pointer[cache.WatchErrorHandlerWithContext]

	standIn     *cache.Reflector
	makeStandIn sync.Once
}

// SetTransform sets a function that runs once for every object before the object is stored. The
// function may change the object, or return another one of the same type and with the same key. If
// it returns an error, the object is not stored, and is fetched again after a back-off. Objects of
// a [client.Resource] share equal parts, so the function gets a deep copy of such an object, and parts
// that it leaves as they were are shared again: [WithShallowTransform] spares the work for that.
//
// It returns [ErrStarted] after the start. For an informer of
// [AsSharedIndexInformer] it returns an [*UnsupportedError].
func (s *SharedIndexInformer[T]) SetTransform(transform cache.TransformFunc) error {
	return s.set("SetTransform", "give the function to informer.NewTransformed", func(h *hooks[T]) {
		if transform == nil {
			h.transform.Store(nil)
			return
		}
		h.transform.Store(&transform)
	})
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext for a handler without a
// context.
func (s *SharedIndexInformer[T]) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	if handler == nil {
		return s.SetWatchErrorHandlerWithContext(nil)
	}
	return s.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets a handler for each failure of a list or watch that is
// retried. As in client-go, a failed watch-list is only logged, unless the server does not serve the
// resource, and so is a watch that has expired. The error is a [*reflector.Error]. The Reflector argument of the handler only has a
// name; it does nothing. The default, also for a nil handler, is cache.DefaultWatchErrorHandler.
//
// It returns [ErrStarted] after the start. For an informer of
// [AsSharedIndexInformer] it returns an [*UnsupportedError].
func (s *SharedIndexInformer[T]) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	return s.set("SetWatchErrorHandler", "give the function to informer.WithErrorHandler", func(h *hooks[T]) {
		if handler == nil {
			h.watch.Store(nil)
			return
		}
		h.watch.Store(&handler)
	})
}

func (s *SharedIndexInformer[T]) set(method, instead string, set func(*hooks[T])) error {
	if s.hooks == nil {
		return &UnsupportedError{Method: method, Instead: instead}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.startedLocked() {
		return ErrStarted
	}
	set(s.hooks)
	return nil
}

// transformed returns an object as the cache stores it.
func (h *hooks[T]) transformed(object T) (T, error) {
	if h.prepare != nil {
		var err error
		if object, err = h.prepare(object); err != nil {
			return object, err
		}
	}
	transform := h.transform.Load()
	if transform == nil {
		return object, nil
	}
	call := *transform
	if h.copies {
		call = func(object any) (any, error) { return deepcopy.Transformed(object, *transform) }
	}
	result, err := call(object)
	if err != nil {
		var none T
		return none, err
	}
	return typed[T](result)
}

// failed is the error handler of the reflector.
func (h *hooks[T]) failed(ctx context.Context, err error) {
	defer utilruntime.HandleCrashWithContext(ctx)
	if failure, ok := errors.AsType[*reflector.Error](err); ok {
		switch failure.Op {
		case opStore:
			utilruntime.HandleErrorWithContext(ctx, err, "Object was not stored", "reflector", h.name)
			return
		case opWatchList: // as in client-go, only a log line: the handler gets the failure of the list
			if errors.Is(err, reflector.ErrNotServed) {
				break // the reflector does not list
			}
			klog.FromContext(ctx).Error(err, "Watch-list failed, the reflector lists or asks again", "reflector", h.name)
			return
		case opWatch: // as in client-go, whose handler does not hear of a version that the server has forgotten
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				klog.FromContext(ctx).V(4).Info("Watch expired, the reflector lists again", "reflector", h.name, "err", err)
				return
			}
		}
	}
	if handler := h.watch.Load(); handler != nil {
		(*handler)(ctx, h.reflector(), err)
		return
	}
	cache.DefaultWatchErrorHandler(ctx, h.reflector(), err)
}

// reflector returns a stand-in with a name, which handlers of client-go ask for, such as the
// default one.
func (h *hooks[T]) reflector() *cache.Reflector {
	h.makeStandIn.Do(func() {
		h.standIn = cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, cache.NewStore(cache.MetaNamespaceKeyFunc),
			cache.ReflectorOptions{Name: h.name, TypeDescription: h.name})
	})
	return h.standIn
}

// metrics feeds client-go's metrics of an informer.
type metrics[T any] struct {
	// version sets the metric of the store's resource version. Only a store of client-go reaches
	// the provider of SetInformerMetricsProvider.
	version cache.Store
	latency cache.HistogramMetric // nil without a provider in the options
}

// newMetrics returns the metrics of an informer, or nil if the options give it no name. The metrics
// of the queue and of handlers need a provider in the options: no function of client-go returns the
// one of SetInformerMetricsProvider.
func newMetrics[T any](options cache.SharedIndexInformerOptions) *metrics[T] {
	id, provider := options.Identifier, options.InformerMetricsProvider
	if !id.Reserved() {
		return nil
	}
	m := &metrics[T]{version: cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithStoreMetrics(id, provider))}
	if provider != nil {
		provider.NewQueuedItemMetric(id).Set(0) // there is no queue between the reflector and the cache
		m.latency = provider.NewProcessingLatencyMetric(id)
	}
	return m
}

// Start implements [store.Follower].
func (m *metrics[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (m *metrics[T]) Commit(commit *store.Commit[T]) {
	if commit.ResourceVersion != "" {
		m.version.Bookmark(commit.ResourceVersion)
	}
}

// Handling measures a call of a handler.
func (m *metrics[T]) Handling(ctx context.Context, _ informer.Handling) (context.Context, func(error)) {
	if m.latency == nil {
		return ctx, nil
	}
	began := time.Now()
	return ctx, func(error) { m.latency.Observe(time.Since(began).Seconds()) }
}

// Queues observes nothing.
func (m *metrics[T]) Queues(string, string) func(eventqueue.TakeInfo) { return nil }
