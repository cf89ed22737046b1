package informer

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Member is anything that a [Group] runs: an [Informer] of any type, another Group, or your own
// type.
type Member interface {
	// Run works until ctx ends, and then returns nil if it did not fail.
	Run(ctx context.Context) error
	// WaitForSync waits until the member is synced. Otherwise its error says why.
	WaitForSync(ctx context.Context) error
	// Ready returns nil, or the reason why a program cannot rely on the member now.
	Ready() error
}

// Group runs many informers as one: it starts them together, waits for them together, and stops
// them one by one or together. Members may come and go while it runs.
//
// The zero Group is empty and ready to use. All methods may be called from any goroutine.
type Group struct {
	// mu protects the fields below it. It is never held while a member is called.
	mu      sync.Mutex
	members []*Membership // in the order in which they were added
	run     *together     // nil unless Run runs
}

var (
	_ Member = (*Group)(nil)
	_ Member = (*Informer[any])(nil)
)

// Membership is a member's place in a [Group].
type Membership struct {
	of       *Group
	stopping chan struct{} // closed by Stop, under of.mu
	done     chan struct{}

	// Guarded by of.mu.

	member  Member                                                           // nil when it has ended
	around  func(ctx context.Context, run func(context.Context) error) error // nil: run alone
	stopped bool
	cancel  context.CancelFunc // nil unless the member runs
	err     error
}

// Add adds a member. If Run is running, the member starts at once. Add a member to one group only,
// and only once.
func (g *Group) Add(member Member) *Membership {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addLocked(member, nil)
}

// AddAround is Add for a member whose Run is wrapped: the group calls around, which must call run
// once with ctx and return after it. Informers and groups end last, and the group cannot recognize
// them inside a wrapping Member; with AddAround it can.
func (g *Group) AddAround(member Member, around func(ctx context.Context, run func(context.Context) error) error) *Membership {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addLocked(member, around)
}

func (g *Group) addLocked(member Member, around func(context.Context, func(context.Context) error) error) *Membership {
	m := &Membership{of: g, member: member, around: around, stopping: make(chan struct{}), done: make(chan struct{})}
	g.members = append(g.members, m)
	if g.run != nil {
		g.startLocked(g.run, m)
	}
	return m
}

// Stop removes the member from the group and ends it, if it runs. It returns at once:
// [Membership.Done] is closed when the member has ended. It may be called more than once, and from
// a handler of the member.
func (m *Membership) Stop() {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.stopLocked()
}

func (m *Membership) stopLocked() {
	if m.stopped {
		return
	}
	m.stopped = true
	close(m.stopping)
	m.of.members = slices.DeleteFunc(slices.Clone(m.of.members), func(other *Membership) bool { return other == m })
	if m.cancel == nil {
		m.endLocked(nil)
		return
	}
	m.cancel()
}

// endLocked records that the member has ended, and drops the reference to it, so that a Membership
// does not keep a cache in memory.
func (m *Membership) endLocked(err error) {
	m.err, m.member, m.around = err, nil, nil
	close(m.done)
}

// Done returns a channel that is closed when the member was stopped and has ended. It stays open
// for members that end with the group.
func (m *Membership) Done() <-chan struct{} { return m.done }

// Err returns the error of the member's Run after [Membership.Stop]; nil before Done is closed.
func (m *Membership) Err() error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	return m.err
}

// Run runs all members until ctx ends or a member fails, which ends the others. It returns when all
// members have ended, with their errors. Informers end last: members that use their caches, such as
// reconcilers, can finish while the informers still fill them. This also holds for informers of a
// nested group, unless a member of that group fails. So no other member may wait for an informer to
// end. [Membership.Err] returns the error of a member that was stopped; Run does not. Run returns
// [ErrRunning] if the group is already running. It may be called again.
func (g *Group) Run(ctx context.Context) error {
	return g.runWithin(ctx, ctx.Done(), func() {})
}

// runWithin is Run within another group: informers continue until last is closed. It calls finished
// when all other members have ended.
func (g *Group) runWithin(ctx context.Context, last <-chan struct{}, finished func()) error {
	g.mu.Lock()
	if g.run != nil {
		g.mu.Unlock()
		return ErrRunning
	}
	r := newTogether(ctx)
	g.run = r
	for _, m := range g.members {
		g.startLocked(r, m)
	}
	g.mu.Unlock()

	err := r.wait(&g.mu, last, finished)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.run = nil
	return err
}

// lastOf returns a channel that is closed when last ends or stopping is closed.
func lastOf(last context.Context, stopping <-chan struct{}) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-last.Done():
		case <-stopping:
		}
	}()
	return ended
}

func (g *Group) startLocked(r *together, m *Membership) {
	if r.ending {
		return
	}
	of, running, run := r.ctx, &r.running, m.member.Run
	finished := func() {}
	switch member := m.member.(type) {
	case interface{ endsLast() }:
		of, running = r.last, &r.lasting
	case *Group:
		r.running.Add(1)
		finished = sync.OnceFunc(r.running.Done)
		running = &r.lasting
		run = func(ctx context.Context) error { return member.runWithin(ctx, lastOf(r.last, m.stopping), finished) }
	}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(of)
	around := m.around
	running.Go(func() {
		defer finished()
		var err error
		if around != nil {
			err = around(ctx, run)
		} else {
			err = run(ctx)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		m.cancel()
		m.cancel = nil
		if m.stopped {
			m.endLocked(err)
		} else if err != nil {
			r.failLocked(err)
		}
	})
}

// WaitForSync waits until all members are synced, and then returns nil. It fails when ctx ends, or
// as soon as one member fails to sync. The error then holds the error of each unsynced member: a
// [*SyncError] for each informer. WaitForSync does not wait for members that are stopped or added
// meanwhile.
func (g *Group) WaitForSync(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	places, members := g.list()
	errs := make([]error, len(members))
	var waiting sync.WaitGroup
	for n, m := range places {
		waiting.Go(func() {
			if errs[n] = m.waitForSync(ctx, members[n]); errs[n] != nil {
				cancel(errOther)
			}
		})
	}
	waiting.Wait()
	return errors.Join(errs...)
}

// errOther is the cause for the other members when one member fails.
var errOther = errors.New("another member of the group failed")

func (m *Membership) waitForSync(ctx context.Context, member Member) error {
	ctx, cancel := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-m.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watcher.Wait()
	defer cancel()
	err := member.WaitForSync(ctx)
	if isClosed(m.stopping) {
		return nil
	}
	return err
}

// Ready returns the errors of the members that are not ready, or nil.
func (g *Group) Ready() error {
	var errs []error
	_, members := g.list()
	for _, member := range members {
		errs = append(errs, member.Ready())
	}
	return errors.Join(errs...)
}

// Has reports whether a member is in the group or in a group within it.
func (g *Group) Has(member Member) bool {
	_, members := g.list()
	return slices.ContainsFunc(members, func(other Member) bool {
		nested, ok := other.(*Group)
		return other == member || ok && nested.Has(member)
	})
}

func (g *Group) list() (places []*Membership, members []Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		members = append(members, m.member)
	}
	return slices.Clone(g.members), members
}
