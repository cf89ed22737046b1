package clientgo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// registration is a registered event handler.
type registration struct {
	// of is the handler's informer.
	of           any // a *SharedIndexInformer of some type
	subscription subscription
	name         string
}

// subscription is an informer.Subscription of any type.
type subscription interface {
	Name() string
	Synced() <-chan struct{}
	Done() <-chan struct{}
	Close()
}

// HasSynced reports whether the handler got every object of the first list, or every object that
// the cache held when the handler was added. It stays false for a handler that was removed before.
func (r *registration) HasSynced() bool { return cache.IsDone(r.HasSyncedChecker()) }

func (r *registration) HasSyncedChecker() cache.DoneChecker {
	return synced{r.name, r.subscription.Synced()}
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
	if s.stoppedLocked() {
		return nil, fmt.Errorf("handler %T was not added to shared informer because %w", handler, ErrStopped)
	}
	sub := s.informer.Handle(caller[T]{handler, options}, opts...)
	r := &registration{of: s, subscription: sub, name: fmt.Sprintf("informer %s, handler %s (%T)", s.informer.Name(), sub.Name(), handler)}
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
			c.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: event.Key.String(), Obj: event.Object})
		}
	}
	return nil
}
