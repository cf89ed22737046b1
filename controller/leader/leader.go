package leader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"go.uber.org/zap"
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

// ErrRunning means that Run was called while it runs already.
var ErrRunning = errors.New("leader election is running already")

// Runner is what is led. Its Run must return soon after ctx has ended, and be callable
// again.
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
// time between two attempts. The lease must last longer than both others together, so
// that what is led can end before. The defaults are [DefaultLeaseDuration],
// [DefaultRenewDeadline] and [DefaultRetryPeriod].
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
	if e.lock == nil || e.led == nil {
		return errors.New("leader election needs a lock and something to lead: pass both to New")
	}
	if e.lease <= e.renew+e.retry {
		return fmt.Errorf("a lease of %v must last longer than %v to renew it and %v between attempts: see WithTimes", e.lease, e.renew, e.retry)
	}
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	for {
		lost, err := e.term(ctx)
		if !lost {
			return err
		}
		e.logger.Warn("lease lost", zap.String("lease", e.lock.Describe()), zap.NamedError("left", err))
	}
}

// term waits for the lease, and leads once. It reports whether the lease was lost, and
// what the thing that is led returned.
func (e *Elector) term(ctx context.Context) (lost bool, err error) {
	// It outlives ctx: the lease is renewed until what is led has ended.
	electing, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	lock := &heldLock{Interface: e.lock, limit: e.renew}
	ended := make(chan struct{})
	lead := func(leased context.Context) {
		defer close(ended)
		defer resign()
		lost, err = e.lead(ctx, leased)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: e.lock.Describe(),
		LeaseDuration: e.lease, RenewDeadline: e.renew, RetryPeriod: e.retry,
		// Not ReleaseOnCancel: of a lease that is lost it tries to let go before it tells
		// the leader, for as long as the renewal has taken already.
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return false, err
	}
	candidate := context.AfterFunc(ctx, func() {
		if !lock.held.Load() {
			resign()
		}
	})
	defer candidate()
	elector.Run(electing)
	if !lock.held.Load() {
		return false, nil // ctx ended before it was our turn
	}
	<-ended
	if !lost {
		e.release(ctx)
	}
	return lost, err
}

// lead runs what is led until ctx or the lease ends.
func (e *Elector) lead(ctx, leased context.Context) (lost bool, err error) {
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	watching := context.AfterFunc(leased, func() { end(controller.ErrHalt) })
	defer watching()
	e.leading.Store(true)
	defer e.leading.Store(false)
	err = e.led.Run(working)
	return leased.Err() != nil && ctx.Err() == nil, err
}

// release gives up the lease, if it is still ours. If that fails, it ends by itself.
func (e *Elector) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.renew)
	defer cancel()
	record, _, err := e.lock.Get(ctx)
	if err == nil && record.HolderIdentity == e.lock.Identity() {
		record.HolderIdentity, record.LeaseDurationSeconds = "", 1
		err = e.lock.Update(ctx, *record)
	}
	if err != nil {
		e.logger.Warn("lease not given up", zap.String("lease", e.lock.Describe()), zap.Error(err))
	}
}

// heldLock is a lock that knows whether it was ever ours. Its requests have a limit: one
// without an answer would keep a candidate from the lease for ever.
type heldLock struct {
	resourcelock.Interface
	limit time.Duration
	held  atomic.Bool
}

// Get implements [resourcelock.Interface].
func (l *heldLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	return l.Interface.Get(ctx)
}

// Create implements [resourcelock.Interface].
func (l *heldLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements [resourcelock.Interface].
func (l *heldLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *heldLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	err := write(ctx, record)
	if err == nil && record.HolderIdentity == l.Identity() {
		l.held.Store(true)
	}
	return err
}
