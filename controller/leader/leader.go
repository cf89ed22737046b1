package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// DefaultLeaseDuration is how long a lease lasts that nobody renews.
	DefaultLeaseDuration = 15 * time.Second
	// DefaultRenewDeadline is how long a leader tries to renew its lease.
	DefaultRenewDeadline = 10 * time.Second
	// DefaultRetryPeriod is the time between two attempts to get or renew a lease.
	DefaultRetryPeriod = 2 * time.Second
)

var (
	// ErrRunning means that Run was called while it runs already.
	ErrRunning = errors.New("leader election is running already")

	// ErrNotLeading means that a context does not come from an [Elector], or that its lease
	// is not held for certain.
	ErrNotLeading = errors.New("not leading")
)

type lockKey struct{}

// Valid returns nil if the lease of ctx, which comes from an [Elector], is certainly held
// at this moment, and else an error that is [ErrNotLeading]. It compares the clocks with the
// last renewal, and so detects that the process was stopped before a timer ends ctx: call it
// immediately before a write that must not be made twice. See the package documentation for
// what it cannot promise.
func Valid(ctx context.Context) error {
	lock, ok := ctx.Value(lockKey{}).(*heldLock)
	if !ok {
		return fmt.Errorf("%w: the context does not come from an Elector", ErrNotLeading)
	}
	if err := lock.valid(time.Now()); err != nil {
		return fmt.Errorf("%w: lease %s: %w", ErrNotLeading, lock.Describe(), err)
	}
	return nil
}

// Runner is what is led. Its Run must return when ctx has ended, and be callable again.
// It may take its time, unless the cause of the end is controller.ErrHalt.
type Runner interface {
	Run(ctx context.Context) error
}

// Elector runs something while it holds a lease. See the package documentation.
//
// Create one with [New], and make it work with [Elector.Run].
type Elector struct {
	lock    resourcelock.Interface
	led     Runner
	logger  *zap.Logger
	lease   time.Duration
	renew   time.Duration
	retry   time.Duration
	running atomic.Bool
	leading atomic.Bool
}

// Option configures an [Elector].
type Option interface{ apply(*Elector) }

type optionFunc func(*Elector)

func (f optionFunc) apply(e *Elector) { f(e) }

// WithTimes sets how long a lease lasts, how long a leader tries to renew it, and the
// time between two attempts. The lease, of which only whole seconds count, must last
// longer than both others together, so that what is led can end before. The defaults are
// [DefaultLeaseDuration], [DefaultRenewDeadline] and [DefaultRetryPeriod].
func WithTimes(lease, renew, retry time.Duration) Option {
	return optionFunc(func(e *Elector) { e.lease, e.renew, e.retry = lease, renew, retry })
}

// WithLogger sets the logger. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(e *Elector) {
		if logger != nil {
			e.logger = logger
		}
	})
}

// New returns an elector that runs led while it holds a lock. Nothing happens until Run
// is called.
func New(lock resourcelock.Interface, led Runner, opts ...Option) *Elector {
	e := &Elector{
		lock: lock, led: led, logger: zap.NewNop(),
		lease: DefaultLeaseDuration, renew: DefaultRenewDeadline, retry: DefaultRetryPeriod,
	}
	for _, opt := range opts {
		opt.apply(e)
	}
	return e
}

// Leading reports whether what is led runs now.
func (e *Elector) Leading() bool { return e.leading.Load() }

// Run is a candidate for the lease, and leads while it has it, until ctx ends or what is
// led returns. It returns what that returned, [ErrRunning] if it runs already, and an
// error for times or a lock of no use.
func (e *Elector) Run(ctx context.Context) error {
	if err := e.Check(); err != nil {
		return err
	}
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	for {
		lost, err := e.term(ctx)
		if lost == nil {
			return err
		}
		e.logger.Warn("lease lost", zap.String("lease", e.lock.Describe()), zap.NamedError("because", lost), zap.NamedError("left", err))
	}
}

// Check returns the error that [Elector.Run] has for times or a lock of no use, or nil: for
// whoever begins something else before.
func (e *Elector) Check() error {
	if e.lock == nil || e.led == nil {
		return errors.New("leader election needs a lock and something to lead: pass both to New")
	}
	// The lease says whole seconds.
	if whole := e.lease.Truncate(time.Second); whole <= e.renew+e.retry {
		return fmt.Errorf("a lease of %v must last longer than %v to renew it and %v between attempts: see WithTimes", whole, e.renew, e.retry)
	}
	_, err := e.electing(e.lock, func(context.Context) {})
	return err
}

func (e *Elector) electing(lock resourcelock.Interface, lead func(context.Context)) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: e.lock.Describe(),
		LeaseDuration: e.lease, RenewDeadline: e.renew, RetryPeriod: e.retry,
		// Not ReleaseOnCancel: of a lease that is lost it tries to let go before it tells
		// the leader, for as long as the renewal has taken already.
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
	})
}

// term waits for the lease, and leads once. It returns why the lease was lost, or nil, and
// what the thing that is led returned.
func (e *Elector) term(ctx context.Context) (lost, err error) {
	// It outlives ctx: the lease is renewed until what is led has ended.
	electing, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	lock := &heldLock{Interface: e.lock, limit: e.renew, lease: e.lease}
	ended := make(chan struct{})
	lead := func(leased context.Context) {
		defer close(ended)
		defer resign()
		leased, lose := context.WithCancel(leased)
		defer lose()
		defer lock.watch(e.renew+e.retry, lose)()
		lost, err = e.lead(ctx, leased, lock)
	}
	elector, err := e.electing(lock, lead)
	if err != nil {
		return nil, err
	}
	candidate := context.AfterFunc(ctx, func() {
		if !lock.held() {
			resign()
		}
	})
	defer candidate()
	elector.Run(electing)
	if !lock.held() {
		if lock.unsure() {
			e.release(ctx, e.retry)
		}
		return nil, nil // ctx ended before it was our turn
	}
	<-ended
	if lost == nil {
		e.release(ctx, e.renew)
	}
	return lost, err
}

// lead runs what is led until ctx or the lease ends.
func (e *Elector) lead(ctx, leased context.Context, lock *heldLock) (lost, err error) {
	working, halt := controller.WithHalt(context.WithValue(ctx, lockKey{}, lock))
	defer halt()
	// Also when ctx has ended: what is led may take its time to finish then.
	watching := context.AfterFunc(leased, halt)
	defer watching()
	e.leading.Store(true)
	defer e.leading.Store(false)
	err = e.led.Run(working)
	if leased.Err() != nil && ctx.Err() == nil {
		lost = cmp.Or(lock.err(), errNotRenewed)
	}
	return lost, err
}

// errNotRenewed is why client-go ends a term before its timer does.
var errNotRenewed = errors.New("not renewed in time")

// release gives up the lease, if it is still ours. If that fails, it ends by itself.
func (e *Elector) release(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := e.tryRelease(ctx)
	// A renewal that was given up came through all the same.
	for apierrors.IsConflict(err) && ctx.Err() == nil {
		select {
		case <-time.After(e.retry / 10):
			err = e.tryRelease(ctx)
		case <-ctx.Done():
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		e.logger.Warn("lease not given up", zap.String("lease", e.lock.Describe()), zap.Error(err))
	}
}

func (e *Elector) tryRelease(ctx context.Context) error {
	record, _, err := e.lock.Get(ctx)
	if err != nil || record.HolderIdentity != e.lock.Identity() {
		return err
	}
	record.HolderIdentity, record.LeaseDurationSeconds = "", 1
	return e.lock.Update(ctx, *record)
}
