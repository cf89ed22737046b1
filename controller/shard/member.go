package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Member is one of several processes that share the shards of a [Group]. See the package
// documentation.
//
// Create one with [New], and start it with [Member.Run].
type Member struct {
	options
	client   coordination.LeaseInterface
	group    Group
	identity string
	hold     RunFunc
	running  lifecycle.Running
	status   *lifecycle.Status[State]
	synced   *lifecycle.Latch
	leases   atomic.Pointer[informer.Informer[*coordinationv1.Lease]] // of the latest Run
}

var _ informer.Runnable = (*Member)(nil)

// New returns a member that calls hold for each of its shards. The identity is for people, such as
// the name of the pod; New adds a suffix that makes the member unique. New returns an error for
// invalid arguments. Nothing starts before Run.
//
// The client needs to get, list, watch, create, update and delete leases in the namespace of the
// group.
func New(client coordination.LeasesGetter, group Group, identity string, hold RunFunc, opts ...Option) (*Member, error) {
	m := &Member{
		options: options{
			lease: defaultLeaseDuration, deadline: defaultRenewDeadline, period: defaultRenewPeriod,
			drain: drainTimeout, logger: zap.NewNop(), clock: monotonic{}, suffix: func() string { return strings.ToLower(rand.Text()[:10]) },
		},
		group: group, identity: identity, hold: hold,
		status: lifecycle.NewStatus(State{Phase: Stopped}, same), synced: lifecycle.NewLatch(),
	}
	for _, opt := range opts {
		opt.apply(&m.options)
	}
	if client == nil || hold == nil {
		return nil, fmt.Errorf("member of a group of shards needs a client and something to do: pass both to New: %w", controller.ErrIncomplete)
	}
	if err := errors.Join(group.check(identity), m.options.check()); err != nil {
		return nil, fmt.Errorf("member of a group of shards: %w", err)
	}
	m.client = client.Leases(group.Namespace)
	return m, nil
}

// Name returns the name of the group.
func (m *Member) Name() string { return m.group.Name }

// Run takes part until ctx ends, and then gives up its shards. It waits for each [RunFunc] to return.
// It tells a RunFunc to end at once after 15 seconds, or if the cause of ctx's end is
// [controller.ErrStopNow]. Other members take the shards one by one, as soon as each is free.
//
// Run returns nil, the error of a RunFunc that returned by itself, the error of the informer of the leases
// if that cannot go on, such as [reflector.ErrNoClient], or a [controller.ErrRunning] while another Run has
// not returned. It may be called again.
func (m *Member) Run(ctx context.Context) error {
	end, err := m.running.Begin("member of " + m.group.Name)
	if err != nil {
		return err
	}
	defer end()
	defer m.status.Set(func(s *State) { *s = State{Phase: Stopped, Err: s.Err} })

	// The watch outlives ctx, and a hard stop around this member, whose informers handle nothing then: a member that
	// gives up its shards still needs to see the leases.
	watching, endWatch := context.WithCancel(context.Background())
	leases := informer.New(m.client, informer.WithName(m.group.Name+" leases"), informer.WithLogger(m.logger),
		informer.WithReflector(reflector.WithLabelSelector(labels.SelectorFromSet(labels.Set{groupLabel: m.group.Name}))))
	s := &sight{leases: leases, wake: make(chan struct{}, 1), seen: map[string]sighting{}, known: map[string]*coordinationv1.Lease{}}
	m.leases.Store(leases)
	m.status.Set(func(s *State) { s.Incarnation, s.Phase, s.Err = "", Joining, nil })
	sub := leases.Handle(s)
	// A member that no longer sees the leases gives up its shards.
	seeing, blind := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		err := feed.ErrAbandoned // remains if a method of the client panics or calls runtime.Goexit
		defer close(ended)
		defer func() { blind(fmt.Errorf("informer of the leases of group %s: %w", m.group.Name, err)) }()
		err = leases.Run(watching)
	}()
	defer func() {
		endWatch()
		sub.Close()
		<-sub.Done()
		<-ended
	}()
	select {
	case <-leases.Synced():
		err = m.live(seeing, s)
	case <-seeing.Done():
	}
	if err == nil && ctx.Err() == nil {
		err = context.Cause(seeing)
	}
	return err
}

// live runs one life after the other.
func (m *Member) live(ctx context.Context, s *sight) error {
	for ctx.Err() == nil {
		l := newLife(m, s)
		err := l.run(ctx)
		switch {
		case errors.Is(err, errLost):
			m.logger.Warn("member has lost its lease", zap.String("group", m.group.Name), zap.String("incarnation", l.id), zap.Error(err))
		case errors.Is(err, errNotCreated):
			m.logger.Warn("member cannot join", zap.String("group", m.group.Name), zap.Error(err))
		default:
			return err
		}
		m.status.Set(func(s *State) { s.Err = err })
		m.sleep(ctx, m.period, nil)
	}
	return nil
}

// sleep waits for a time, or until wake has a value or ctx ends.
func (o *options) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	over := make(chan struct{})
	defer o.clock.after(d, func() { close(over) })()
	select {
	case <-over:
	case <-wake:
	case <-ctx.Done():
	}
}

// patience is the timeout of one request: two requests fit into the time until the deadline.
func (o *options) patience() time.Duration { return (o.deadline - o.period) / 2 }

// Shard is one of several equal parts of some work: part Index of Of. The user of the package
// decides which objects belong to a shard, for example by a range of hashes.
type Shard struct {
	// Index is from 0 to Of-1.
	Index int
	// Of is the number of shards.
	Of int
	// Generation counts how often the shard was taken. Of two holders of a shard, the later one has the
	// higher generation.
	Generation int
}

// String returns index and number of shards, such as "3/16", without the generation.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }

// RunFunc does the work of a shard. The member calls it on its own goroutine after it took the
// shard. ctx ends when the member gives up the shard: RunFunc may finish its current work, as shard-P3
// says, or all work must end at once, as shard-P2 says. The first may turn into the second: see
// controller.HardStopped.
//
// An error after the end of ctx is logged. If RunFunc returns before, the member gives up all its
// shards, and Run returns the error. A panic in RunFunc ends the process, as in any goroutine, and
// other members take its shards when its lease expires. Reconcilers and controllers recover panics
// of their functions.
type RunFunc func(ctx context.Context, s Shard) error

var (
	// ErrNotHeld means that a shard is not held any more, or not certainly.
	ErrNotHeld = errors.New("shard is not held")

	// ErrReturned means that a [RunFunc] returned nil while its member still held the shard.
	ErrReturned = errors.New("work of a shard has ended by itself")
)

type heldKey struct{}

// held is one call of a RunFunc. Any goroutine may use it.
type held struct {
	shard  Shard
	keeper *keeper
	over   atomic.Bool // the call has returned
}

// valid returns an error unless the shard is certainly held.
func (h *held) valid() error {
	if h.over.Load() {
		return fmt.Errorf("%w: the work of %s has ended", ErrNotHeld, h.shard)
	}
	if err := h.keeper.valid(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotHeld, h.shard, err)
	}
	return nil
}

// FromContext returns the shard of a context, for example in a call of a reconcile function. It returns
// false if ctx does not come from a [RunFunc].
func FromContext(ctx context.Context) (Shard, bool) {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return Shard{}, false
	}
	return h.shard, true
}

// CheckHeld returns nil if the shard of ctx is certainly held at this moment, and otherwise an error
// that wraps [ErrNotHeld]. It compares the clocks, and so detects a paused process before any timer
// does. Call it immediately before a write that must not happen twice.
func CheckHeld(ctx context.Context) error {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return fmt.Errorf("%w: the context is not that of one", ErrNotHeld)
	}
	return h.valid()
}

// Work is the work of one shard, made for one [RunFunc].
type Work struct {
	// Caches are the caches that Led reads, such as an informer of the shard's objects, or an
	// manager.Manager. They end after Led. Nil means none.
	Caches controller.Runner
	// Led is the rest of the work, such as a reconcile.Reconciler.
	Led controller.Runner
}

// ErrNoWork means that a [Work] has no Led.
var ErrNoWork = errors.New("nothing to run for a shard: set Work.Led")

// Working returns a [RunFunc] that calls make for its shard and runs the result until the shard is
// given up. A reconciler may return its remaining keys as an *eventqueue.DrainError. The next
// holder reconciles every key of the shard anyway: give the reconciler a short drain timeout.
//
// The context of the work has the shard: see [FromContext]. A nil make makes a nil RunFunc.
func Working(make func(ctx context.Context, s Shard) (Work, error)) RunFunc {
	if make == nil {
		return nil // an error of New
	}
	return func(ctx context.Context, s Shard) error {
		work, err := make(ctx, s)
		if err != nil {
			return err
		}
		if work.Led == nil {
			return ErrNoWork
		}
		return work.run(ctx)
	}
}

// run runs the work until ctx or a part of the work ends.
func (w Work) run(ctx context.Context) error {
	leading, stop := context.WithCancel(ctx)
	defer stop()
	reading, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var read chan error
	if w.Caches != nil {
		read = make(chan error, 1)
		go func() {
			defer close(read) // also after Goexit
			defer stop()      // Led cannot continue without its caches
			read <- w.Caches.Run(reading)
		}()
	}
	err := w.Led.Run(leading)
	end()
	if read != nil {
		err = errors.Join(err, <-read)
	}
	return err
}

const (
	// The defaults of [WithTimes].
	defaultLeaseDuration = 15 * time.Second
	defaultRenewDeadline = 10 * time.Second
	defaultRenewPeriod   = 2 * time.Second
	// drainTimeout is how long a [RunFunc] may take to return when the member gives up its shard. After
	// that the member tells it to end at once, by controller.HardStopContext, and reports it. The member
	// keeps the shard until the RunFunc has returned.
	drainTimeout = 15 * time.Second

	// MaxLeaseDuration is the longest lease of a member. Members treat a longer duration as this
	// one, because no member wrote it.
	MaxLeaseDuration = 10 * time.Minute

	// MaxShards is the largest number of shards: each shard is a Lease object.
	MaxShards = 4096
)

// Group has the common settings of all members. Members with another Namespace or Name form another
// group. The package documentation describes members with another number of shards.
type Group struct {
	// Namespace is the namespace of the leases.
	Namespace string
	// Name is the prefix of the leases' names. It is also the value of a label.
	Name string
	// Shards is the number of shards. About ten times the number of members keeps the load even
	// when a member comes or goes.
	Shards int
}

// Option configures a [Member].
type Option interface{ apply(*options) }

type options struct {
	lease, deadline, period time.Duration
	logger                  *zap.Logger

	// Tests replace the fields below.
	drain  time.Duration
	clock  clock
	suffix func() string
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// WithTimes sets how long a silent member keeps its shards, how long a member works without a
// renewal, and the time between two renewals. The lease must be whole seconds, at most
// [MaxLeaseDuration]. The time between deadline and lease is at least a fifth of the lease. It
// allows the work to end, and clocks to differ. The defaults are 15, 10 and 2 seconds.
func WithTimes(lease, deadline, period time.Duration) Option {
	return optionFunc(func(o *options) { o.lease, o.deadline, o.period = lease, deadline, period })
}

// WithLogger sets the logger. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

func (o *options) check() error {
	switch {
	case o.lease < time.Second || o.lease > MaxLeaseDuration || o.lease != o.lease.Truncate(time.Second):
		return fmt.Errorf("a lease of %v must be of whole seconds, at most %v: see WithTimes", o.lease, MaxLeaseDuration)
	case o.deadline <= 0 || o.deadline > o.lease/5*4:
		return fmt.Errorf("a deadline of %v must leave a fifth of the lease of %v for the work to end: see WithTimes", o.deadline, o.lease)
	case o.period <= 0 || o.period > o.deadline/2:
		return fmt.Errorf("a period of %v must allow for two renewals before the deadline of %v: see WithTimes", o.period, o.deadline)
	}
	return nil
}

func (g Group) check(identity string) error {
	var errs []error
	if g.Shards < 1 || g.Shards > MaxShards {
		errs = append(errs, fmt.Errorf("%d shards: there must be 1 to %d", g.Shards, MaxShards))
	}
	if g.Namespace == "" {
		errs = append(errs, errors.New("the leases need a namespace"))
	}
	for _, bad := range validation.IsValidLabelValue(g.Name) {
		errs = append(errs, fmt.Errorf("name %q of the group: %s", g.Name, bad))
	}
	for _, bad := range validation.IsDNS1123Subdomain(memberLease(g.Name, identity+"-0123456789")) {
		errs = append(errs, fmt.Errorf("group %q and identity %q make no name of a lease: %s", g.Name, identity, bad))
	}
	return errors.Join(errs...)
}

// clock is a member's source of time. Tests use clocks with errors.
type clock interface {
	now() time.Time
	// after calls a function on its own goroutine after d, unless stop is called first.
	after(d time.Duration, f func()) (stop func())
}

// monotonic is the clock of the machine, which no time adjustment changes.
type monotonic struct{}

func (monotonic) now() time.Time { return time.Now() }

func (monotonic) after(d time.Duration, f func()) func() {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}
