package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
)

// run is the state of one call of Run.
type run[T any] struct {
	// feedCtx is the context of the producers of events.
	feedCtx     context.Context
	stopFeeding context.CancelFunc
	// handlerCtx is the context of handlers. It outlives the context of Run, so that handlers can
	// finish. After a hard stop, such as the loss of a lease, nothing may be finished.
	handlerCtx  context.Context
	stopWorking func()
	workers     sync.WaitGroup
	workEnded   bool // no further subscriber is served; guarded by Informer.mu
}

// Run fills the cache, keeps it up to date and calls handlers, until ctx ends. It then lets
// handlers finish their queued events, for the time of [WithDrainTimeout], and returns when the
// last call has returned. After a hard stop (controller.HardStopContext), handlers finish nothing.
//
// It returns nil if neither the reflector nor the store behind the cache failed, and no handler had
// events left. For each handler that had, the error names the subscriber and wraps an
// [*eventqueue.DrainError], whose cause after the drain timeout is [context.DeadlineExceeded]. The
// handlers get these events when Run is called again. While another Run has not returned, the error is a [reflector.ErrRunning].
func (i *Informer[T]) Run(ctx context.Context) error {
	end, err := i.running.Begin("informer " + i.name)
	if err != nil {
		return err
	}
	defer end()
	r := i.start(ctx)
	defer i.stop(r)
	stopBacking, waitBacking := i.runBacking(r)
	defer func() { _ = waitBacking() }() // if the feed panics: stopBacking runs first
	defer stopBacking()
	err = i.runFeed(r)
	if i.guard != nil {
		defer i.guard.Report()
	}
	stopBacking() // it can finish while handlers do
	return errors.Join(err, i.drainAndEndWork(r), waitBacking())
}

// runFeed fills the cache until the feed ends, and tells the callers of WaitForSync if it failed.
func (i *Informer[T]) runFeed(r *run[T]) error {
	err := feed.ErrAbandoned // remains if Run panics or calls runtime.Goexit
	defer func() {
		if err != nil {
			i.fail(err)
		}
		i.endFeeding(r)
	}()
	err = i.feed.Run(r.feedCtx)
	return err
}

func (i *Informer[T]) start(ctx context.Context) *run[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	r := &run[T]{}
	i.stopped = make(chan struct{})
	r.feedCtx, r.stopFeeding = context.WithCancel(ctx)
	r.handlerCtx, r.stopWorking = lifecycle.WorkContext(ctx)
	i.run = r
	if i.failed.Err() != nil {
		i.failed, i.fail = context.WithCancelCause(context.Background())
	}
	for _, s := range i.subscriptions {
		r.serve(s)
	}
	return r
}

// errBackingAbandoned is the error of a backing whose Run does not return.
var errBackingAbandoned = errors.New("store behind the cache ended by runtime.Goexit")

// runBacking runs the backing, which is the store behind the cache (package persist has one), until
// stop is called. If the backing fails while the feed runs, it ends the feed. The feed then returns nil,
// as it does whenever its context ends, so the callers of WaitForSync get the error of the backing. wait
// waits for the backing to end and returns its error, in each call.
func (i *Informer[T]) runBacking(r *run[T]) (stop func(), wait func() error) {
	if i.backing == nil {
		return func() {}, func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.feedCtx))
	err := errBackingAbandoned // remains if Run calls runtime.Goexit
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if err != nil && r.feedCtx.Err() == nil { // it is the reason why the cache is no longer filled
				i.fail(err)
				r.stopFeeding()
			}
		}()
		err = i.backing.Run(ctx)
	}()
	return cancel, func() error { <-ended; return err }
}

// drainAndEndWork lets handlers finish their queued events, ends the workers, and returns the remaining
// events as errors. A handler that subscribes meanwhile is not waited for: what it leaves comes
// in the next Run.
func (i *Informer[T]) drainAndEndWork(r *run[T]) error {
	ctx, cancel := context.WithTimeoutCause(r.handlerCtx, i.drainTimeout, lifecycle.ErrDrainTimeout)
	defer cancel()
	var left []*Subscription[T]
	for _, s := range i.handlers() {
		// One after the other: all handlers work at the same time, and share one deadline.
		if s.queues.Drain(ctx) != nil {
			left = append(left, s)
		}
	}
	cause := context.Cause(ctx) // nil if only events in back-off are left
	i.endWork(r)
	var errs []error
	for _, s := range left {
		// A call that ran at the timeout has ended since, and a back-off may have.
		if err := s.queues.Left(cause); err != nil {
			errs = append(errs, fmt.Errorf("subscriber %s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// endWork ends the workers and waits for them.
func (i *Informer[T]) endWork(r *run[T]) {
	r.stopWorking()
	i.mu.Lock()
	r.workEnded = true
	i.mu.Unlock()
	r.workers.Wait()
}

// Stopped returns a channel that is closed as long as Run does not fill the cache: before Run, and
// after the reflector has stopped. Handlers may still finish then. An open channel is closed when
// the reflector stops. Package manager ends the members that have this method last.
func (i *Informer[T]) Stopped() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

// endFeeding records that the cache is no longer filled.
func (i *Informer[T]) endFeeding(r *run[T]) {
	r.stopFeeding()
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.stopped)
}

func (i *Informer[T]) stop(r *run[T]) {
	i.endWork(r) // again, in case the feed panicked
	i.mu.Lock()
	i.run = nil // not before: a handler must not get a second worker
	i.mu.Unlock()
}

// Restore fills the cache with the snapshot of an earlier process: the objects of its cache, and
// the snapshot's resource version. If the server still knows that version, Run resumes from there
// without a list. Later changes come as events; subscribers get the other objects as initial
// additions.
//
// Call it before the first Run, with objects that have their metadata: without resource versions, a
// list cannot tell which objects are unchanged. It returns [reflector.ErrRunning] while Run runs, as Run does
// meanwhile, and otherwise the errors of [store.Cache]: a scoped informer with scopes cannot be restored.
func (i *Informer[T]) Restore(objects []T, resourceVersion string) error {
	end, err := i.running.Begin("informer " + i.name)
	if err != nil {
		return err
	}
	defer end()
	return i.cache.Replace(objects, resourceVersion)
}
