package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
)

// Reconcile adds a reconciler with the manager's logger. Each log line, also of [reconcile.Logger]
// in its function, has the reconciler's name and the key. The reconciler works while this process
// leads. A call that takes longer than [WithStuckAfter] makes /healthz fail. See
// [reconcile.New].
func Reconcile[T any](m *Manager, name string, primary *informer.Informer[T], fn reconcile.Func[T], opts ...reconcile.Option) *reconcile.Reconciler[T] {
	calls := &stopwatch{limit: m.stuck, running: map[*running]struct{}{}}
	opts = slices.Concat([]reconcile.Option{reconcile.WithLogger(m.logger)}, m.reconciling, opts)
	r := reconcile.New(name, primary, around(calls, fn), opts...)
	m.AddLeaderElected(&reconciling[T]{r, calls})
	return r
}

// reconciling is a reconciler with a stopwatch for its calls.
type reconciling[T any] struct {
	*reconcile.Reconciler[T]
	*stopwatch
}

var _ LivenessChecker = (*reconciling[any])(nil)

// stopwatch knows the running calls and their start times.
type stopwatch struct {
	limit time.Duration // 0 or less for none

	mu      sync.Mutex
	running map[*running]struct{} // Guarded by mu
}

type running struct {
	key   store.Key
	since time.Time
}

// around returns the function with a stopwatch.
func around[T any](s *stopwatch, fn reconcile.Func[T]) reconcile.Func[T] {
	if fn == nil || s.limit <= 0 {
		return fn
	}
	return func(ctx context.Context, key store.Key, object T) (reconcile.Result, error) {
		call := &running{key: key, since: time.Now()}
		s.mu.Lock()
		s.running[call] = struct{}{}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, call)
		}()
		return fn(ctx, key, object)
	}
}

// Alive returns an error if a call takes too long.
func (s *stopwatch) Alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *running
	for call := range s.running {
		if oldest == nil || call.since.Before(oldest.since) {
			oldest = call
		}
	}
	if oldest == nil {
		return nil
	}
	if age := time.Since(oldest.since); age > s.limit {
		return fmt.Errorf("call for %s has not ended for %v: %w", oldest.key, age.Round(time.Second), ErrStuck)
	}
	return nil
}
