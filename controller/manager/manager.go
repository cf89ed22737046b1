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
	// ErrRunning means that Run was called while it is already running.
	ErrRunning = errors.New("manager is running already")

	// ErrEnded means that a member has ended without being told to.
	ErrEnded = errors.New("member has ended by itself")

	// ErrStuck means that a member does not answer, or that a call of a reconcile function
	// does not end: see [WithStuckAfter].
	ErrStuck = errors.New("member is stuck")
)

// MemberError wraps the error of a member, with its name.
type MemberError struct {
	// Member is the member's name.
	Member string
	Err    error
}

// Error names the member.
func (e *MemberError) Error() string { return fmt.Sprintf("%s: %v", e.Member, e.Err) }

// Unwrap returns Err.
func (e *MemberError) Unwrap() error { return e.Err }

// Manager runs the parts of a controller program. See the package documentation for its guarantees.
//
// Create one with [New], add members with [Informer], [Reconcile], [Manager.Add] and
// [Manager.AddLed], and start it with [Manager.Run].
type Manager struct {
	options
	config  *rest.Config
	elector *leader.Elector // nil without an election

	informers sharing
	base      informer.Group // informers, and other members that every process runs
	led       informer.Group // members that only the leader runs

	running atomic.Bool
	served  atomic.Pointer[string] // the address of the server

	// mu protects the fields below it.
	mu     sync.Mutex
	places []*place           // in the order in which they were added
	stop   context.CancelFunc // nil unless Run runs
	ending <-chan struct{}    // closed when led members are told to end
}

var _ informer.Member = (*Manager)(nil)

// New returns a manager without members. The config is for the cluster. It may be nil if the
// program does not call [Informer]. Nothing starts before Run.
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

// Add adds a member that every process runs, whether it leads or not, such as an informer that was
// made elsewhere. The member ends after all led members. While Run runs, the member starts at once.
//
// Errors and checks use the result of the member's method Name, or its type if there is no such
// method.
func (m *Manager) Add(member informer.Member) *informer.Membership {
	return m.add(&m.base, false, member)
}

// AddLed adds a member that works while this process leads, or always if there is no election, such
// as a reconciler that was made elsewhere. Its Run must return soon after ctx has ended, and must
// be callable again.
func (m *Manager) AddLed(member informer.Member) *informer.Membership {
	return m.add(&m.led, true, member)
}

func (m *Manager) add(group *informer.Group, led bool, member informer.Member) *informer.Membership {
	p := &place{of: m, member: member, name: nameOf(member), led: led}
	m.mu.Lock()
	if len(m.places) == cap(m.places) { // before the slice grows: list may never be called
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

// Leading reports whether this process runs the led members: it has the lease, or there is no
// election.
func (m *Manager) Leading() bool {
	if m.elector == nil {
		return m.running.Load()
	}
	return m.elector.Leading()
}

// Run runs all members until ctx ends, or one of them fails. Informers start first. Without an
// election, led members start at the same time. With an election, they start once the informers are
// synced and this process has the lease. At the end the led members finish first, while the
// informers still run. Then the informers end, and then the server.
//
// Run returns the error of each member as a [*MemberError], and the errors of the election and the
// server. If a member was told to end, Run logs its [*eventqueue.DrainError] instead. Run returns
// [ErrRunning] if it is already running. It fails before any led member runs if a reconciler
// watches an informer that does not start within a second and is not a member, also not of a nested
// group. The error names the informer. Run may be called again if the members' Run may.
func (m *Manager) Run(ctx context.Context) error {
	if !m.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer m.running.Store(false)
	if m.elector != nil {
		if err := m.elector.Check(); err != nil {
			return err // now, and not after the caches are synced
		}
	}
	// A failure of the server ends the members, and a failure of a member ends the server.
	leading, stop := context.WithCancel(ctx)
	defer stop()
	m.begin(leading.Done(), stop)
	defer m.begin(nil, nil)
	serving, err := m.serve(ctx, stop)
	if err != nil {
		return err
	}
	m.logger.Info("manager starts")

	// The informers outlive ctx, so that led members can finish with fresh caches.
	informing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	informed := make(chan error, 1)
	go func() { informed <- m.base.Run(informing) }()
	led := m.checkInformers(leading)
	if led == nil {
		led = m.lead(leading)
	}
	stop() // the led members may have ended by themselves
	end()
	errs := []error{led, <-informed, serving.close()}
	m.logger.Info("manager has ended", zap.NamedError("cause", context.Cause(ctx)))
	return errors.Join(errs...)
}

// begin records how to end the led members.
func (m *Manager) begin(ending <-chan struct{}, stop context.CancelFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending, m.stop = ending, stop
}

// end ends the led members, because a member has failed.
func (m *Manager) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
	}
}

// lead runs the led members until ctx ends.
func (m *Manager) lead(ctx context.Context) error {
	if m.elector == nil {
		return m.led.Run(ctx)
	}
	// A leader with empty caches would block a candidate with full caches.
	if err := m.base.WaitForSync(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // this process has not led
		}
		return err
	}
	m.logger.Info("candidate for the lease", zap.String("lease", m.lock.Describe()))
	return m.elector.Run(ctx)
}

// list returns the current members, in the order in which they were added.
func (m *Manager) list() []*place {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tidyLocked()
	return slices.Clone(m.places)
}

// tidyLocked removes members that were stopped.
func (m *Manager) tidyLocked() { m.places = slices.DeleteFunc(m.places, (*place).gone) }
