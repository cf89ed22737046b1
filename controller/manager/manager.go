package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/informer"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
)

var (
	// ErrRunning means that Run was called while it runs already.
	ErrRunning = errors.New("manager is running already")

	// ErrEnded means that a member has ended although nobody told it to.
	ErrEnded = errors.New("member has ended by itself")

	// ErrStuck means that a member does not answer, or that a call of a reconcile function
	// does not end: see [WithStuckAfter].
	ErrStuck = errors.New("member is stuck")
)

// MemberError says which member failed, and wraps how.
type MemberError struct {
	// Member is the member's name.
	Member string
	Err    error
}

// Error names the member.
func (e *MemberError) Error() string { return fmt.Sprintf("%s: %v", e.Member, e.Err) }

// Unwrap returns Err.
func (e *MemberError) Unwrap() error { return e.Err }

// Manager runs what a controller program consists of. See the package documentation for
// what it guarantees.
//
// Create one with [New], add to it by [Informer], [Reconcile], [Manager.Add] and
// [Manager.AddLed], and make it work with [Manager.Run].
type Manager struct {
	options
	config  *rest.Config
	elector *leader.Elector // nil: nobody has to lead

	informers sharing
	base      informer.Group // informers, and what else every process runs
	led       informer.Group // what only the leader runs

	running atomic.Bool
	served  atomic.Pointer[string] // where the server listens

	// mu protects the fields below it.
	mu     sync.Mutex
	places []*place           // in the order in which they came
	stop   context.CancelFunc // nil unless Run runs
	ending <-chan struct{}    // closed when what is led is told to end
}

var _ informer.Member = (*Manager)(nil)

// New returns a manager without members. The config is that of the cluster; it may be nil
// if nobody asks for an [Informer]. Nothing happens until Run is called.
func New(config *rest.Config, opts ...Option) *Manager {
	m := &Manager{options: newOptions(opts), config: config}
	if m.klog {
		RouteKlog(m.logger)
	}
	if m.lock != nil {
		elect := append([]leader.Option{leader.WithLogger(m.logger)}, m.elect...)
		m.elector = leader.New(m.lock, &m.led, elect...)
	}
	return m
}

// Add adds a member that every process runs, whether it leads or not, such as an informer
// that was made elsewhere. It ends after everything that is led. While Run runs, the
// member starts at once.
//
// The name of the member, for errors and checks, is what its method Name returns, if it
// has one, and else its type.
func (m *Manager) Add(member informer.Member) *informer.Membership {
	return m.add(&m.base, false, member)
}

// AddLed adds a member that works while this process leads, or always if there is no
// election: such as a reconciler that was made elsewhere. Its Run must return soon after
// ctx has ended, and be callable again.
func (m *Manager) AddLed(member informer.Member) *informer.Membership {
	return m.add(&m.led, true, member)
}

func (m *Manager) add(group *informer.Group, led bool, member informer.Member) *informer.Membership {
	p := &place{of: m, member: member, name: nameOf(member), led: led}
	m.mu.Lock()
	if len(m.places) == cap(m.places) { // before it grows: nobody may ever ask for the list
		m.tidyLocked()
	}
	m.places = append(m.places, p)
	m.mu.Unlock()
	p.membership.Store(group.AddAround(member, p.around))
	return p.membership.Load()
}

// nameOf returns the name of a member.
func nameOf(member informer.Member) string {
	if named, ok := member.(interface{ Name() string }); ok {
		return named.Name()
	}
	return fmt.Sprintf("%T", member)
}

// Leading reports whether this process runs what is led: it has the lease, or there is no
// election.
func (m *Manager) Leading() bool {
	if m.elector == nil {
		return m.running.Load()
	}
	return m.elector.Leading()
}

// Run runs all members until ctx ends, or one of them fails. Informers start first. What is
// led starts with them or, if there is an election, once they are synced and this process
// has the lease. At the end what is led finishes first, while the informers still run; then
// these end, and the server last.
//
// It returns all that members returned, a [*MemberError] each, but logs an
// [*eventqueue.DrainError] of a member that was told to end; what the election and the
// server returned; and [ErrRunning] if it runs already. It fails before anything is led, with an
// error that names the informer, if a reconciler watches an informer that is no member, also not
// of a group within, and does not start within a second. It may be called again, if the
// members' Run may.
func (m *Manager) Run(ctx context.Context) error {
	if !m.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer m.running.Store(false)
	if m.elector != nil {
		if err := m.elector.Check(); err != nil {
			return err // now, and not when the caches are synced
		}
	}
	// What went wrong in the server ends the rest, and the other way round.
	leading, stop := context.WithCancel(ctx)
	defer stop()
	m.begin(leading.Done(), stop)
	defer m.begin(nil, nil)
	serving, err := m.serve(ctx, stop)
	if err != nil {
		return err
	}
	m.logger.Info("manager starts")

	// They outlive ctx, so that what is led can finish with caches that are up to date.
	informing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	informed := make(chan error, 1)
	go func() { informed <- m.base.Run(informing) }()
	led := m.checkInformers(leading)
	if led == nil {
		led = m.lead(leading)
	}
	stop() // what is led may have ended by itself
	end()
	errs := []error{led, <-informed, serving.close()}
	m.logger.Info("manager has ended", zap.NamedError("cause", context.Cause(ctx)))
	return errors.Join(errs...)
}

// begin notes how what is led is told to end.
func (m *Manager) begin(ending <-chan struct{}, stop context.CancelFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending, m.stop = ending, stop
}

// end tells what is led to end, because a member has failed.
func (m *Manager) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
	}
}

// lead runs what is led until ctx ends.
func (m *Manager) lead(ctx context.Context) error {
	if m.elector == nil {
		return m.led.Run(ctx)
	}
	// Who led with empty caches would keep out somebody whose caches are full.
	if err := m.base.WaitForSync(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // nobody has led
		}
		return err
	}
	m.logger.Info("candidate for the lease", zap.String("lease", m.lock.Describe()))
	return m.elector.Run(ctx)
}

// list returns the members that are there, in the order in which they came.
func (m *Manager) list() []*place {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tidyLocked()
	return slices.Clone(m.places)
}

// tidyLocked forgets the members that were taken out.
func (m *Manager) tidyLocked() { m.places = slices.DeleteFunc(m.places, (*place).gone) }
