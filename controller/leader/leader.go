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
	// DefaultLeaseDuration is how long a lease lasts without a renewal.
	DefaultLeaseDuration = 15 * time.Second
	// DefaultRenewDeadline is how long a leader tries to renew its lease.
	DefaultRenewDeadline = 10 * time.Second
	// DefaultRetryPeriod is the time between two attempts to get or renew a lease.
	DefaultRetryPeriod = 2 * time.Second
)

var (
	// ErrRunning means that Run was called while it is already running.
	ErrRunning = errors.New("leader election is running already")

	// ErrNotLeading means that a context does not come from an [Elector], or that its lease is not
	// certainly held.
	ErrNotLeading = errors.New("not leading")
)

type lockKey struct{}

// Valid returns nil if the lease of ctx, which comes from an [Elector], is certainly held at this
// moment, and otherwise an error that wraps [ErrNotLeading]. It compares the clocks with the last
// renewal, and so detects a paused process before a timer ends ctx. Call it immediately before a
// write that must not happen twice. The package documentation describes its limits.
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

// Runner is the led member. Its Run must return when ctx has ended, and must be callable again. It
// may finish its work first, unless the cause of the end is controller.ErrStopNow.
type Runner interface {
	Run(ctx context.Context) error
}

// Elector runs a [Runner] while it holds a lease. See the package documentation.
//
// Create one with [New], and start it with [Elector.Run].
type Elector struct {
	lock    resourcelock.Interface
	led     Runner
	logger  *zap.Logger
	lease   time.Duration
	renew   time.Duration
	retry   time.Duration
	running atomic.Bool
	leading atomic.Bool

	unwatched bool // the log has the error of the watch; belongs to the goroutine of watchLease
}

// Option configures an [Elector].
type Option interface{ apply(*Elector) }

type optionFunc func(*Elector)

func (f optionFunc) apply(e *Elector) { f(e) }

// WithTimes sets how long a lease lasts, how long a leader tries to renew it, and the time between
// two attempts. The lease is rounded down to whole seconds. It must last longer than both others
// together, so that the led member can end before it expires. The defaults are
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

// New returns an elector that runs led while it holds a lock. Nothing starts before Run.
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

// Leading reports whether the led member is running.
func (e *Elector) Leading() bool { return e.leading.Load() }

// Run competes for the lease, and runs the led member while it has the lease, until ctx ends or the
// led member returns. It returns the error of the led member, [ErrRunning] if it is already
// running, or an error for invalid times or an invalid lock.
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

// Check returns the error of [Elector.Run] for invalid times or an invalid lock, or nil. Use it to
// fail before other parts of the program start.
func (e *Elector) Check() error {
	if e.lock == nil || e.led == nil {
		return errors.New("leader election needs a lock and something to lead: pass both to New")
	}
	// A lease stores whole seconds.
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
		// Not ReleaseOnCancel: after the loss of a lease it tries to release before it notifies the
		// leader, and that may take as long as a renewal.
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
	})
}

// term waits for the lease, and leads once. It returns why the lease was lost, or nil, and the
// error of the led member.
func (e *Elector) term(ctx context.Context) (lost, err error) {
	// It outlives ctx: the lease is renewed until the led member has ended.
	electing, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	lock := &heldLock{Interface: e.lock, limit: e.renew, lease: e.lease}
	ended := make(chan struct{})
	lead := func(leased context.Context) {
		defer close(ended)
		defer resign()
		leased, lose := context.WithCancel(leased)
		defer lose()
		defer lock.begin(e.renew+e.retry, lose)()
		defer e.watchLease(leased, lock)()
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
		return nil, nil // ctx ended before this process got the lease
	}
	<-ended
	if lost == nil {
		e.release(ctx, e.renew)
	}
	return lost, err
}

// lead runs the led member until ctx or the lease ends.
func (e *Elector) lead(ctx, leased context.Context, lock *heldLock) (lost, err error) {
	working, hardStop := controller.WithHardStop(context.WithValue(ctx, lockKey{}, lock))
	defer hardStop()
	// Also after ctx has ended, while the led member still finishes.
	watching := context.AfterFunc(leased, hardStop)
	defer watching()
	e.leading.Store(true)
	defer e.leading.Store(false)
	err = e.led.Run(working)
	if leased.Err() != nil && ctx.Err() == nil {
		lost = cmp.Or(lock.err(), errNotRenewed)
	}
	return lost, err
}

// errNotRenewed is the reason if client-go ends a term before its timer does.
var errNotRenewed = errors.New("not renewed in time")

// release gives up the lease, if this process still holds it. If that fails, the lease expires.
func (e *Elector) release(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := e.tryRelease(ctx)
	// A renewal that was cancelled may have succeeded.
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
