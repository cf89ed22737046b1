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

	// ErrEnded means that a member ended although the manager did not stop it.
	ErrEnded = errors.New("member has ended by itself")

	// ErrDuplicateName means that two members have the same name, or that one was added twice. Give
	// each its own name, for example with [informer.WithName].
	ErrDuplicateName = errors.New("two members have this name")

	// ErrStuck means that a member does not answer, or that a call of a reconcile function
	// does not end: see [WithStuckAfter].
	ErrStuck = errors.New("member is stuck")
)

// RunnableError wraps the error of a member, with its name.
type RunnableError struct {
	// Name is the name of the member.
	Name string
	Err  error
}

// Error names the member.
func (e *RunnableError) Error() string { return fmt.Sprintf("%s: %v", e.Name, e.Err) }

// Unwrap returns Err.
func (e *RunnableError) Unwrap() error { return e.Err }

// Manager runs the parts of a controller program. See the package documentation for its guarantees.
//
// Create one with [New], add members with [Informer], [Reconcile], [Manager.Add] and
// [Manager.AddLeaderElected], and start it with [Manager.Run].
type Manager struct {
	options
	config  *rest.Config
	elector *leader.Elector // nil without an election

	informers sharing

	running atomic.Bool
	served  atomic.Pointer[string] // the address of the server

	// mu protects the fields below it, and those of members and runs. It is never held while a
	// member is called.
	mu      sync.Mutex
	members []*Membership      // in the order in which they were added
	runs    map[bool]*run      // of led members, and of the others; the latest ones
	stop    context.CancelFunc // nil unless Run runs
	ending  <-chan struct{}    // closed when led members are told to end
}

var _ informer.Runnable = (*Manager)(nil)

// New returns a manager without members. The config is for the cluster. It may be nil if the
// program does not call [Informer]. Nothing starts before Run.
func New(config *rest.Config, opts ...Option) *Manager {
	m := &Manager{options: newOptions(opts), config: config, runs: map[bool]*run{}}
	if m.klog {
		RouteKlog(m.logger)
	}
	if m.lock != nil {
		elect := append([]leader.Option{leader.WithLogger(m.logger)}, m.elect...)
		m.elector = leader.New(m.lock, led{m}, elect...)
	}
	return m
}

// Add adds a member that every process runs, whether it leads or not, such as an informer that was
// made elsewhere. The member ends after all led members. While Run runs, the member starts at once.
// Add a member to one manager only, and only once.
//
// Errors and checks use the result of the member's method Name, or its type if there is no such
// method or the name is empty. Two members with the same Name are an error of Run. If Run runs, the
// second member does not start: Ready and [Membership.Err] return an [ErrDuplicateName].
func (m *Manager) Add(member informer.Runnable) *Membership { return m.add(member, false) }

// AddLeaderElected adds a member that works while this process leads, or always if there is no
// election, such as a reconciler that was made elsewhere. Its Run must return soon after ctx has
// ended, and must be callable again.
func (m *Manager) AddLeaderElected(member informer.Runnable) *Membership { return m.add(member, true) }

func (m *Manager) add(member informer.Runnable, led bool) *Membership {
	p := &Membership{of: m, member: member, led: led, stopping: make(chan struct{}), done: make(chan struct{})}
	p.name, p.named = nameOf(member)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = append(m.members, p)
	if r := m.runs[led]; r != nil {
		m.startLocked(r, p)
	}
	return p
}

// clashLocked returns an error if an earlier member has the name of a member. Members without a
// name may have the same type.
func (m *Manager) clashLocked(p *Membership) error {
	number := slices.Index(m.members, p)
	for n, other := range m.members[:max(number, 0)] {
		if other.named && p.named && other.name == p.name {
			return fmt.Errorf("%w: number %d and number %d in the order of Add", ErrDuplicateName, n+1, number+1)
		}
	}
	return nil
}

// clashes returns the errors of all members that have the name of an earlier one.
func (m *Manager) clashes() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, p := range m.members {
		if err := m.clashLocked(p); err != nil {
			errs = append(errs, &RunnableError{Name: p.name, Err: err})
		}
	}
	return errors.Join(errs...)
}

// has reports whether a member is in the manager or in a manager within it.
func (m *Manager) has(member informer.Runnable) bool {
	_, members := m.list()
	return slices.ContainsFunc(members, func(other informer.Runnable) bool {
		nested, ok := other.(nesting)
		return other == member || ok && nested.has(member)
	})
}

// list returns the current members, in the order in which they were added.
func (m *Manager) list() (places []*Membership, members []informer.Runnable) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.members {
		members = append(members, p.member)
	}
	return slices.Clone(m.members), members
}

// Leading reports whether this process runs the led members: it has the lease, or there is no
// election.
func (m *Manager) Leading() bool {
	if m.elector == nil {
		return m.running.Load()
	}
	return m.elector.Leading()
}

// Run runs all members until ctx ends, or one of them fails. Members that are not led start first.
// Without an election, led members start at the same time. With an election, they start once the
// others are synced and this process has the lease.
//
// At the end the led members finish first, then the others, then the informers, and then the
// server. So members can finish while the informers still fill their caches. No other member may
// wait for an informer to end. If a member is a Manager, its informers end with the informers of
// the outer manager, unless one of its members fails.
//
// Run returns the error of each member as a [*RunnableError], and the errors of the election and the
// server. If the manager stopped a member, Run logs its [*eventqueue.DrainError], or the
// recorder.ErrUnwritten of a recorder, instead.
// [Membership.Err] returns the error of a member that was stopped; Run does not. Run returns
// [ErrRunning] if it is already running.
//
// Run fails before it starts any member if two have the same name, with an [ErrDuplicateName]. Run
// fails before it starts led members if a reconciler watches an informer that does not run
// within a second. Members, and members of nested managers, are exempt. The error names the
// informer. Run may be called again if the members' Run may.
func (m *Manager) Run(ctx context.Context) error {
	return m.runWithin(ctx, ctx.Done(), func() {})
}

// runWithin is Run within another manager: informers continue until last is closed. It calls
// finished when all other members have ended.
func (m *Manager) runWithin(ctx context.Context, last <-chan struct{}, finished func()) error {
	if !m.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer m.running.Store(false)
	if err := m.clashes(); err != nil {
		return err
	}
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

	// The other members outlive ctx, so that led members can finish with fresh caches.
	others := m.start(context.WithoutCancel(ctx), false)
	err = m.checkInformers(leading)
	if err == nil {
		err = m.lead(leading)
	}
	if err != nil || ctx.Err() == nil {
		last = leading.Done() // the manager ends by itself, because something failed
	}
	stop() // the led members may have ended by themselves
	err = errors.Join(err, m.end(others, last, finished), serving.close())
	m.logger.Info("manager has ended", zap.NamedError("cause", context.Cause(ctx)))
	return err
}

// begin records how to end the led members.
func (m *Manager) begin(ending <-chan struct{}, stop context.CancelFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending, m.stop = ending, stop
}

// lead runs the led members until ctx ends.
func (m *Manager) lead(ctx context.Context) error {
	if m.elector == nil {
		return led{m}.Run(ctx)
	}
	// A leader with empty caches would block a candidate with full caches.
	if err := m.WaitForSync(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // this process has not led
		}
		return err
	}
	m.logger.Info("candidate for the lease", zap.String("lease", m.lock.Describe()))
	return m.elector.Run(ctx)
}

// led runs the led members of a manager.
type led struct{ *Manager }

// Run runs the led members until ctx ends.
func (m led) Run(ctx context.Context) error {
	r := m.start(ctx, true)
	<-ctx.Done()
	return m.end(r, ctx.Done(), func() {})
}
