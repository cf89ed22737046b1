package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector/mapper"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
)

var (
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

	informers  sharing
	restMapper func() (meta.RESTMapper, error) // that of [WithRESTMapper], or the manager's own

	running lifecycle.Running
	served  atomic.Pointer[string] // the address of the server

	// mu protects the fields below it, and those of members and runs. It is never held while a
	// member is called.
	mu      sync.Mutex
	members []*Membership      // in the order in which they were added
	runs    map[placement]*run // the latest ones
	stop    context.CancelFunc // nil unless Run runs
	ending  <-chan struct{}    // closed when led members are told to end
}

var _ informer.Runnable = (*Manager)(nil)

// New returns a manager without members. The config is for the cluster. It may be nil if the
// program does not call [Informer]. Nothing starts before Run.
func New(config *rest.Config, opts ...Option) *Manager {
	m := &Manager{options: newOptions(opts), config: config, runs: map[placement]*run{}}
	var making sync.Mutex
	own := m.mapper // guarded by making; nil until it is needed
	m.restMapper = func() (meta.RESTMapper, error) {
		making.Lock()
		defer making.Unlock()
		if own != nil {
			return own, nil
		}
		made, err := mapper.InMemory(config)
		if err == nil {
			own = made
		}
		return own, err
	}
	if m.klog {
		RouteKlog(m.logger)
	}
	if m.elected {
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
// method or the name is empty. A second member of a name is an [ErrDuplicateName], as manager-N10 says,
// also of [Membership.Err]. A nil member is such an error, too, a controller.ErrIncomplete.
func (m *Manager) Add(member informer.Runnable) *Membership { return m.add(member, everyProcess) }

// AddLeaderElected adds a member that works while this process leads, or always if there is no
// election, such as a reconciler that was made elsewhere. Its Run must return soon after ctx has
// ended, and must be callable again. Then an error that only says that ctx has ended is no failure.
func (m *Manager) AddLeaderElected(member informer.Runnable) *Membership {
	return m.add(member, leaderOnly)
}

func (m *Manager) add(member informer.Runnable, where placement) *Membership {
	if member == nil {
		member = absent{}
	}
	p := &Membership{manager: m, member: member, runs: where, done: make(chan struct{})}
	p.stopping, p.stop = context.WithCancel(context.Background())
	p.name, p.named = nameOf(member)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = append(m.members, p)
	if r := m.runs[where]; r != nil {
		m.startLocked(r, p)
	}
	return p
}

// absent stands for a nil member.
type absent struct{}

func (absent) Run(context.Context) error         { return lifecycle.ErrIncomplete }
func (absent) WaitForSync(context.Context) error { return lifecycle.ErrIncomplete }
func (absent) Ready() error                      { return lifecycle.ErrIncomplete }

// clashLocked returns an error if a member is nil, or if an earlier one has its name. Members without a
// name may have the same type.
func (m *Manager) clashLocked(p *Membership) error {
	number := slices.Index(m.members, p)
	if p.member == (absent{}) {
		return fmt.Errorf("number %d in the order of Add: %w", number+1, lifecycle.ErrIncomplete)
	}
	for n, other := range m.members[:max(number, 0)] {
		if other.named && p.named && other.name == p.name {
			return fmt.Errorf("%w: number %d and number %d in the order of Add", ErrDuplicateName, n+1, number+1)
		}
	}
	return nil
}

// clashes returns the errors of clashLocked for all members.
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

// mayRun reports whether an informer that does not run may do so later: it is a member of this manager or of
// one within it, or there is a led member that may run it, such as a fleet. All members count as led if the
// manager itself is.
func (m *Manager) mayRun(watched informer.Runnable, led bool) bool {
	memberships, members := m.list()
	for n, member := range members {
		later := led || memberships[n].runs == leaderOnly
		if member == watched {
			return true
		}
		switch member := member.(type) {
		case nesting:
			if member.mayRun(watched, later) {
				return true
			}
		case interface {
			endsLast
			Synced() <-chan struct{}
		}, interface{ Informers() []informer.Runnable }: // an informer and a reconciler run no other informer
		default:
			if later {
				return true
			}
		}
	}
	return false
}

// list returns the current members, in the order in which they were added.
func (m *Manager) list() (memberships []*Membership, members []informer.Runnable) {
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
		return m.running.Active()
	}
	return m.elector.Leading()
}

// Run runs all members until ctx ends, or one of them fails. Members that are not led start first.
// Without an election, led members start at the same time. With an election, they start once the
// others are synced and this process has the lease.
//
// They end in the order of manager-N3, so no other member may wait for an informer to end.
//
// Run returns the error of each member as a [*RunnableError], and the errors of the election and the
// server. If the manager stopped a member, Run logs its [*eventqueue.DrainError], or the
// recorder.ErrUnwritten of a recorder, instead.
// [Membership.Err] returns the error of a member that was stopped; Run does not. While another Run
// has not returned, Run returns a controller.ErrRunning.
//
// Run fails with an [ErrDuplicateName], as manager-N10 says, and as manager-N9 says before it starts led
// members: it gives an informer a second to start.
func (m *Manager) Run(ctx context.Context) error {
	return m.runWithin(ctx, ctx.Done(), func() {})
}

// runWithin is Run within another manager: informers continue until informersEnd is closed. It calls
// finished when all other members have ended.
func (m *Manager) runWithin(ctx context.Context, informersEnd <-chan struct{}, finished func()) error {
	end, err := m.running.Begin("manager")
	if err != nil {
		return err
	}
	defer end()
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
	m.setEnding(leading.Done(), stop)
	defer m.setEnding(nil, nil)
	endServer, err := m.serve(ctx, stop)
	if err != nil {
		return err
	}
	m.logger.Info("manager starts")

	// The other members outlive ctx, so that led members can finish with fresh caches.
	others := m.start(context.WithoutCancel(ctx), everyProcess)
	err = m.checkInformers(leading)
	if err == nil {
		err = m.lead(leading)
	}
	if err != nil || ctx.Err() == nil {
		informersEnd = lifecycle.Closed() // something failed, so the informers wait neither for ctx nor for an outer manager
	}
	stop() // the led members may have ended by themselves
	err = errors.Join(err, m.end(others, informersEnd, finished), endServer())
	m.logger.Info("manager has ended", zap.NamedError("cause", context.Cause(ctx)))
	return err
}

// setEnding records how to end the led members; nil while Run does not run.
func (m *Manager) setEnding(ending <-chan struct{}, stop context.CancelFunc) {
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
	r := m.start(ctx, leaderOnly)
	<-ctx.Done()
	return m.end(r, ctx.Done(), func() {})
}

// Name names the led members that run, for the log of the elector.
func (m led) Name() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var running []string
	for _, p := range m.members {
		if p.runs == leaderOnly && p.cancel != nil {
			running = append(running, p.name)
		}
	}
	if len(running) == 0 {
		return "a member that was stopped"
	}
	return strings.Join(running, ", ")
}

// placement says which processes run a member.
type placement string

const (
	everyProcess placement = "every process"
	leaderOnly   placement = "the leader" // every process if there is no election
)

// Membership is a member's place in a [Manager].
type Membership struct {
	manager  *Manager
	name     string
	named    bool // by the member itself
	runs     placement
	stopping context.Context    // ends by stop
	stop     context.CancelFunc // called by Stop, under manager.mu
	done     chan struct{}

	// Guarded by manager.mu.

	member  informer.Runnable // nil when it was stopped and has ended
	stopped bool
	cancel  context.CancelFunc // nil unless the member runs
	ended   bool               // by itself
	refused error              // why it does not start
	err     error              // of the last Run
	probe   *probe             // nil unless one is running
}

// nameOf returns the name of a member, and whether the member has one by itself.
func nameOf(member informer.Runnable) (name string, named bool) {
	if of, ok := member.(interface{ Name() string }); ok {
		name = of.Name()
	}
	if name == "" {
		return fmt.Sprintf("%T", member), false
	}
	return name, true
}

// Stop removes the member from the manager and ends it, if it runs. It returns at once:
// [Membership.Done] is closed when the member has ended. It may be called more than once, and from
// a handler of the member.
func (p *Membership) Stop() {
	m := p.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.stopped {
		return
	}
	p.stopped = true
	p.stop()
	m.members = slices.DeleteFunc(m.members, func(other *Membership) bool { return other == p })
	if p.cancel == nil {
		p.endLocked()
		return
	}
	p.cancel()
}

// endLocked drops the reference to a stopped member, so that a Membership does not keep a cache in
// memory.
func (p *Membership) endLocked() {
	p.member = nil
	close(p.done)
}

// Done returns a channel that is closed when the member was stopped and has ended. It stays open
// for members that end with the manager.
func (p *Membership) Done() <-chan struct{} { return p.done }

// Err returns the error of the member's last Run, as a [*RunnableError]. It is nil while the member
// runs.
func (p *Membership) Err() error {
	p.manager.mu.Lock()
	defer p.manager.mu.Unlock()
	return p.err
}

// run is one run of the members that every process runs, or of those that only the leader runs. Its
// fields are guarded by Manager.mu.
type run struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	// last is the context of the members in lasting, which end after all others.
	last    context.Context
	endLast context.CancelFunc
	lasting sync.WaitGroup
	ending  bool // no further member is started
	errs    []error

	ended    chan struct{}  // closed when all have ended
	watching sync.WaitGroup // for a hard stop
}

// start starts all members of one placement. m.runs has the run until the next start.
func (m *Manager) start(ctx context.Context, where placement) *run {
	r := &run{ended: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.last, r.endLast = context.WithCancel(context.WithoutCancel(ctx))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[where] = r
	for _, p := range m.members {
		if p.runs == where {
			m.startLocked(r, p)
		}
	}
	if hard := controller.HardStopped(ctx); hard != nil {
		r.watching.Go(func() {
			select {
			case <-hard:
				r.endLast() // nothing finishes with their caches
			case <-r.ended:
			}
		})
	}
	return r
}

// end ends the members and returns their errors. Members that end last continue until
// informersEnd is closed, unless a member failed. end calls finished before it waits for that.
func (m *Manager) end(r *run, informersEnd <-chan struct{}, finished func()) error {
	r.cancel()
	m.mu.Lock()
	r.ending = true
	m.mu.Unlock()
	r.running.Wait()
	finished()
	if len(m.errors(r)) == 0 {
		<-informersEnd
	}
	r.endLast()
	r.lasting.Wait()
	close(r.ended)
	r.watching.Wait()
	return errors.Join(m.errors(r)...)
}

func (m *Manager) errors(r *run) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.errs
}

// nesting is a *Manager, or a type that embeds one and may have a Run of its own.
type nesting interface {
	mayRun(watched informer.Runnable, led bool) bool
}

// endsLast is an informer or a fleet of them. They end last, since other members work with their caches.
type endsLast interface{ Stopped() <-chan struct{} }

func (m *Manager) startLocked(r *run, p *Membership) {
	if r.ending {
		return
	}
	if p.refused = m.clashLocked(p); p.refused != nil { // added while Run runs
		p.err = &RunnableError{Name: p.name, Err: p.refused}
		m.logger.Error("member does not start", zap.String("member", p.name), zap.Error(p.refused))
		return
	}
	parent := r.ctx
	group := &r.running
	work := p.member.Run
	finished := func() {}
	switch member := p.member.(type) {
	case *Manager:
		r.running.Add(1)
		finished = sync.OnceFunc(r.running.Done)
		group = &r.lasting
		work = func(ctx context.Context) error {
			last, end := context.WithCancel(r.last)
			defer end()
			defer context.AfterFunc(p.stopping, end)()
			return member.runWithin(ctx, last.Done(), finished)
		}
	case endsLast:
		parent, group = r.last, &r.lasting
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(parent)
	p.ended, p.err = false, nil
	group.Go(func() {
		defer finished()
		err := lifecycle.ErrAbandoned // remains if the member calls runtime.Goexit
		defer func() { m.ended(ctx, r, p, err) }()
		err = work(ctx)
	})
}

// ended notes that a member's Run has ended.
func (m *Manager) ended(ctx context.Context, r *run, p *Membership, err error) {
	stopped := ctx.Err() != nil // by the manager, so that work which is left is no failure
	switch {
	case stopped && err == context.Canceled: // as many functions return it
		err = nil
	case stopped && onlyLeft(err, context.Cause(ctx)):
		m.logger.Warn("member ended with work left", zap.String("member", p.name), zap.Error(err))
		err = nil
	case err != nil:
		err = &RunnableError{Name: p.name, Err: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.cancel()
	p.cancel, p.ended, p.err = nil, !stopped, err
	if p.stopped {
		p.endLocked()
	} else if err != nil {
		r.errs = append(r.errs, err)
		m.stop() // the led members end before the others
	}
}

// onlyLeft reports whether an error only names the work that was left when a member was told to
// end, or says that it was told: requests return the cause of their context.
func onlyLeft(err, cause error) bool {
	if err == lifecycle.ErrDrainTimeout || err == context.Canceled || // recorder.ErrUnwritten wraps the first
		err != nil && reflect.TypeOf(err).Comparable() && err == cause {
		return true
	}
	switch e := err.(type) {
	case *eventqueue.DrainError:
		return true
	case interface{ Unwrap() error }:
		return onlyLeft(e.Unwrap(), cause)
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !onlyLeft(one, cause) })
	}
	return false
}

// errOther is the cause for the other members when one member fails to sync.
var errOther = errors.New("another member of the manager failed")

func (p *Membership) waitForSync(ctx context.Context, member informer.Runnable) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.stopping, cancel)()
	p.manager.mu.Lock()
	err := p.refused
	p.manager.mu.Unlock()
	if err == nil {
		err = member.WaitForSync(ctx)
	}
	if p.stopping.Err() != nil {
		return nil
	}
	return err
}
