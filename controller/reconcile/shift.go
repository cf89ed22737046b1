package reconcile

import (
	"context"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/util/workqueue"
)

// shift is one run of a reconciler: its workers, and their state.
type shift struct {
	*options
	name      string
	reconcile Func
	sources   []source
	ready     workqueue.TypedInterface[store.Key]             // has the keys that wait for a worker
	queue     workqueue.TypedRateLimitingInterface[store.Key] // adds to it after a time
	order     *ordering

	// working is the context of the calls. It outlives the context of Run, so that calls can
	// finish.
	working context.Context
	end     context.CancelCauseFunc
	workers sync.WaitGroup
	waiters sync.WaitGroup

	// mu protects jobs. It is held briefly, and never while a function of the user runs.
	mu   sync.Mutex
	jobs map[store.Key]*job
}

func newShift(ctx context.Context, o *options, name string, reconcile Func, sources []source) *shift {
	s := &shift{
		options: o, name: name, reconcile: reconcile, sources: sources,
		order: newOrdering(), jobs: map[store.Key]*job{},
	}
	s.working, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	s.ready = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[store.Key]{Name: name, MetricsProvider: o.metrics, Queue: s.order})
	s.queue = workqueue.NewTypedRateLimitingQueueWithConfig(o.limiter, workqueue.TypedRateLimitingQueueConfig[store.Key]{
		Name: name, MetricsProvider: o.metrics,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[store.Key]{
			Name: name, MetricsProvider: o.metrics, Queue: delayed{s.ready, s.order},
		}),
	})
	return s
}

// start starts the workers.
func (s *shift) start() {
	for range max(s.options.workers, 1) {
		s.workers.Go(s.work)
	}
}

// work makes one call after the other, until the queue is shut down and empty.
func (s *shift) work() {
	returned := false
	defer func() {
		if !returned {
			s.workers.Go(s.work) // Goexit ended the goroutine: another one takes its place
		}
	}()
	for {
		key, over := s.queue.Get()
		if over {
			break
		}
		s.handle(key)
	}
	returned = true
}

// handle makes the call for a key, unless it must not be made now.
func (s *shift) handle(key store.Key) {
	defer s.queue.Done(key)
	p := s.order.settle(key)
	if s.abandons(key) {
		s.queue.Forget(key)
		return
	}
	attempt, ok := s.begin(key, p)
	if !ok {
		return
	}
	c := &call{Context: s.working, shift: s, key: key}
	var result Result
	err := error(&eventqueue.PanicError{Key: key, Value: eventqueue.ErrAbandoned})
	defer func() {
		if panicked, ok := errors.AsType[*eventqueue.PanicError](err); ok && panicked.Stack == nil {
			panicked.Stack = debug.Stack() // Goexit, of which this is the stack
		}
		s.settle(key, p, c, result, err)
	}()
	result, err = s.call(c, key, attempt, p)
}

// call calls the reconcile function. A panic is an error.
func (s *shift) call(c *call, key store.Key, attempt int, p Priority) (result Result, err error) {
	ctx := context.Context(c)
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.timeout, ErrTimeout)
		defer cancel()
	}
	defer func() {
		if value := recover(); value != nil {
			err = &eventqueue.PanicError{Key: key, Value: value, Stack: debug.Stack()}
		}
	}()
	if s.observer != nil {
		return s.observed(ctx, key, attempt, p)
	}
	return s.reconcile(ctx, key)
}

// drain lets the workers finish the queue, and returns the remaining keys as an error.
func (s *shift) drain() error {
	late := func() { s.end(controller.ErrDrainTimeout) }
	if s.drainTimeout <= 0 {
		late()
	}
	timer := time.AfterFunc(s.drainTimeout, late)
	defer timer.Stop()
	s.queue.ShutDown()
	s.workers.Wait()
	s.finish()
	cause := context.Cause(s.working) // nil if there was time enough
	s.end(nil)
	s.waiters.Wait()
	return s.left(cause)
}

// finish reconciles the keys that came back too late for the queue, and the keys that wait for the
// caches, as long as the informers fill these. The workers have ended before.
func (s *shift) finish() {
	filled, giveUp := context.WithCancel(s.working)
	defer giveUp()
	for _, source := range s.sources {
		s.waiters.Go(func() {
			select {
			case <-source.of().Stopped():
				giveUp()
			case <-filled.Done():
			}
		})
	}
	free := make(chan struct{}, max(s.options.workers, 1))
	for key, ready := range s.unfinished() {
		s.workers.Go(func() {
			select {
			case <-ready:
			case <-filled.Done():
				return
			}
			free <- struct{}{}
			defer func() { <-free }()
			s.handle(key)
		})
	}
	s.workers.Wait()
}

// unfinished returns the keys that still must be reconciled, each with a channel that is closed
// when that may begin.
func (s *shift) unfinished() map[store.Key]<-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(chan struct{})
	close(now)
	all := map[store.Key]<-chan struct{}{}
	for key, j := range s.jobs {
		switch {
		case j.parked:
			all[key] = j.shown
		case j.due:
			all[key] = now
		}
	}
	return all
}

// left returns an error that names the remaining keys.
func (s *shift) left(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &eventqueue.DrainError{Cause: cause}
	for _, key := range slices.SortedFunc(maps.Keys(s.jobs), store.Key.Compare) {
		if j := s.jobs[key]; j.err != nil || j.due || j.parked {
			e.Pending = append(e.Pending, eventqueue.Pending{Key: key, Events: 1, Err: j.err})
		}
	}
	if len(e.Pending) == 0 {
		return nil
	}
	return e
}

// close ends all goroutines of the shift.
func (s *shift) close() {
	s.end(nil)
	s.queue.ShutDown()
	s.workers.Wait()
	s.waiters.Wait()
}
