package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/term"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The defaults of [WithTimes].
const (
	defaultLeaseDuration = 15 * time.Second
	defaultRenewDeadline = 10 * time.Second
	defaultRetryPeriod   = 2 * time.Second
)

// ErrNotLeading means that a context does not come from an [Elector], or that its lease is not
// certainly held.
var ErrNotLeading = errors.New("not leading")

type lockKey struct{}

// CheckHeld returns nil if the lease of ctx, which comes from an [Elector], is certainly held at this
// moment, and otherwise an error that wraps [ErrNotLeading]. It compares the clocks with the last
// renewal, and so detects a paused process before a timer ends ctx. Call it immediately before a
// write that must not happen twice. The package documentation describes its limits.
func CheckHeld(ctx context.Context) error {
	lock, ok := ctx.Value(lockKey{}).(*heldLock)
	if !ok {
		return fmt.Errorf("%w: the context does not come from an Elector", ErrNotLeading)
	}
	if err := lock.valid(time.Now()); err != nil {
		return fmt.Errorf("%w: lease %s: %w", ErrNotLeading, lock.Describe(), err)
	}
	return nil
}

// Elector runs a member while it holds a lease. See the package documentation.
//
// Create one with [New], and start it with [Elector.Run].
type Elector struct {
	lock    resourcelock.Interface
	led     controller.Runner
	logger  *zap.Logger
	lease   time.Duration
	renew   time.Duration
	retry   time.Duration
	running lifecycle.Running
	leading atomic.Bool
	overdue atomic.Pointer[time.Time] // since when the led member works although another process may lead; nil if it does not

	waits     *waiting
	unwatched bool // the log has the error of the watch; belongs to the goroutine of watchLease
}

// Option configures an [Elector].
type Option interface{ apply(*Elector) }

type optionFunc func(*Elector)

func (f optionFunc) apply(e *Elector) { f(e) }

// WithTimes sets how long a lease lasts, how long a leader tries to renew it, and the time between
// two attempts. The lease is rounded down to whole seconds. It must last longer than both others
// together, so that the led member can end before it expires. The defaults are 15, 10 and 2 seconds.
func WithTimes(lease, renew, retry time.Duration) Option {
	return optionFunc(func(e *Elector) { e.lease, e.renew, e.retry = lease, renew, retry })
}

// WithLogger sets the logger. The default logs nothing. A candidate logs why it does not lead: who
// holds the lease, for which former leader it waits, or which request fails. It logs each reason
// once, with its next try. A leader logs why it lost the lease, that the led member does not end then, and
// that it cannot watch or release the lease.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(e *Elector) {
		if logger != nil {
			e.logger = logger
		}
	})
}

// New returns an elector that runs led while it holds a lock. Nothing starts before Run.
func New(lock resourcelock.Interface, led controller.Runner, opts ...Option) *Elector {
	e := &Elector{
		lock: lock, led: led, logger: zap.NewNop(),
		lease: defaultLeaseDuration, renew: defaultRenewDeadline, retry: defaultRetryPeriod,
	}
	for _, opt := range opts {
		opt.apply(e)
	}
	if e.lock != nil {
		e.waits = &waiting{elector: e}
	}
	return e
}

// Leading reports whether the led member is running.
func (e *Elector) Leading() bool { return e.leading.Load() }

// Alive returns an error if the led member works on without the lease, and another process may lead for as long as a
// lease lasts. Only a restart ends such a member, so let the program's liveness probe fail, as a manager does.
func (e *Elector) Alive() error {
	since := e.overdue.Load()
	if since == nil || time.Since(*since) < e.lease {
		return nil
	}
	return fmt.Errorf("lease %s was lost, and %s works on for %v although another process may lead", e.lock.Describe(), e.ledName(), time.Since(*since).Round(time.Second))
}

func (e *Elector) ledName() string {
	if named, ok := e.led.(interface{ Name() string }); ok && named.Name() != "" {
		return named.Name()
	}
	return fmt.Sprintf("%T", e.led)
}

// Run competes for the lease, and runs the led member while it has the lease, until ctx ends or the
// led member returns. It returns the error of the led member, a [controller.ErrRunning] while it runs
// already, or an error for invalid times or an invalid lock.
func (e *Elector) Run(ctx context.Context) error {
	if err := e.Check(); err != nil {
		return err
	}
	end, err := e.running.Begin("leader election by " + e.lock.Describe())
	if err != nil {
		return err
	}
	defer end()
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
		return fmt.Errorf("leader election needs a lock and something to lead: pass both to New: %w", controller.ErrIncomplete)
	}
	// A lease stores whole seconds.
	if whole := e.lease.Truncate(time.Second); whole <= e.renew+e.retry {
		return fmt.Errorf("a lease of %v must last longer than %v to renew it and %v between attempts: see WithTimes", whole, e.renew, e.retry)
	}
	if e.leading.Load() {
		return nil // was checked, and a further elector of client-go sets the metric of the lease to "does not lead"
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
	lock := &heldLock{Interface: e.lock, limit: e.renew, lease: e.lease, waits: e.waits}
	ended := make(chan struct{})
	lead := func(leased context.Context) {
		defer close(ended)
		defer resign()
		leased, lose := context.WithCancel(leased)
		defer lose()
		defer lock.begin(e.renew+e.retry, lose)()
		defer e.watchLease(leased, lock)()
		e.waits.leads()
		err = lifecycle.ErrAbandoned // remains if the led member calls runtime.Goexit
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
	working, hardStop := controller.HardStopContext(term.Begin(context.WithValue(ctx, lockKey{}, lock)))
	defer hardStop()
	defer e.watchLed(leased, lock, hardStop)()
	e.leading.Store(true)
	defer e.leading.Store(false)
	err = e.led.Run(working)
	if leased.Err() != nil && ctx.Err() == nil {
		lock.end(lock.expired()) // unless it has ended: client-go may give up before the timer of the lock
		lost = lock.err()
	}
	return lost, err
}

// watchLed calls hardStop when the lease ends, also after ctx has ended, while the led member still finishes. It
// reports a led member that then works on until another process may lead. stop says that it has returned.
func (e *Elector) watchLed(leased context.Context, lock *heldLock, hardStop func()) (stop func()) {
	returned := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-leased.Done():
		case <-returned:
			return
		}
		hardStop()
		lock.end(lock.expired())
		select {
		case now := <-time.After(e.lease - e.renew - e.retry):
			e.overdue.Store(&now)
			e.logger.Error("lease lost, but the led member works on although another process may lead: code that does not end with its context needs a restart",
				zap.String("lease", e.lock.Describe()), zap.String("member", e.ledName()), zap.NamedError("because", lock.err()))
		case <-returned:
		}
	})
	return func() {
		close(returned)
		watching.Wait()
		e.overdue.Store(nil)
	}
}

// release gives up the lease, if this process still holds it. Each of its requests may take as long
// as the limit. If it fails, or takes as long as a lease, the lease expires.
func (e *Elector) release(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(limit, min(2*limit, e.lease)))
	defer cancel()
	err := e.tryRelease(ctx, limit)
	// A renewal that was cancelled may have succeeded.
	for apierrors.IsConflict(err) && ctx.Err() == nil {
		select {
		case <-time.After(e.retry / 10):
			err = e.tryRelease(ctx, limit)
		case <-ctx.Done():
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		e.logger.Warn("lease not given up: it expires", zap.String("lease", e.lock.Describe()), zap.Error(err))
	}
}

func (e *Elector) tryRelease(ctx context.Context, limit time.Duration) error {
	lock := &heldLock{Interface: e.lock, limit: limit}
	record, _, err := lock.get(ctx)
	if err != nil || record.HolderIdentity != e.lock.Identity() {
		return err
	}
	record.HolderIdentity, record.LeaseDurationSeconds = "", 1
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow(limit))
	defer cancel()
	return slow(ctx, e.lock.Update(ctx, *record))
}
