package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"go.uber.org/zap"
)

// Membership is a member's place in a [Manager].
type Membership struct {
	of       *Manager
	name     string
	named    bool // by the member itself
	led      bool
	stopping chan struct{} // closed by Stop, under of.mu
	done     chan struct{}

	// Guarded by of.mu.

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
	m := p.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.stopped {
		return
	}
	p.stopped = true
	close(p.stopping)
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
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
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
}

// start starts all members that are led, or all that are not. m.runs has the run until end.
func (m *Manager) start(ctx context.Context, led bool) *run {
	r := &run{}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.last, r.endLast = context.WithCancel(context.WithoutCancel(ctx))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[led] = r
	for _, p := range m.members {
		if p.led == led {
			m.startLocked(r, p)
		}
	}
	return r
}

// end ends the members and returns their errors. Members that end last continue until last is
// closed, unless a member failed. end calls finished before it waits for last.
func (m *Manager) end(r *run, last <-chan struct{}, finished func()) error {
	r.cancel()
	m.mu.Lock()
	r.ending = true
	m.mu.Unlock()
	r.running.Wait()
	finished()
	if len(m.errors(r)) == 0 {
		<-last
	}
	r.endLast()
	r.lasting.Wait()
	return errors.Join(m.errors(r)...)
}

func (m *Manager) errors(r *run) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.errs
}

// nesting is a *Manager, or a type that embeds one and may have a Run of its own.
type nesting interface{ has(informer.Runnable) bool }

// lasting is an informer. Informers end last, since other members work with their caches.
type lasting interface{ Stopped() <-chan struct{} }

func (m *Manager) startLocked(r *run, p *Membership) {
	if r.ending {
		return
	}
	if p.refused = m.clashLocked(p); p.refused != nil { // added while Run runs
		p.err = &RunnableError{Name: p.name, Err: p.refused}
		m.logger.Error("member does not start", zap.String("member", p.name), zap.Error(p.refused))
		return
	}
	of, running, work, finished := r.ctx, &r.running, p.member.Run, func() {}
	switch member := p.member.(type) {
	case *Manager:
		r.running.Add(1)
		finished = sync.OnceFunc(r.running.Done)
		running = &r.lasting
		work = func(ctx context.Context) error { return member.runWithin(ctx, lastOf(r.last, p.stopping), finished) }
	case lasting:
		of, running = r.last, &r.lasting
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(of)
	p.ended, p.err = false, nil
	running.Go(func() {
		defer finished()
		err := work(ctx)
		told := ctx.Err() != nil
		err = p.failure(told, err)
		m.mu.Lock()
		defer m.mu.Unlock()
		p.cancel()
		p.cancel, p.ended, p.err = nil, !told, err
		if p.stopped {
			p.endLocked()
		} else if err != nil {
			r.errs = append(r.errs, err)
			m.stop() // the led members end before the others
		}
	})
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

// failure returns the failure of a member whose Run returned err, if any. told is true if the
// member was told to end. Work that is left then is no failure.
func (p *Membership) failure(told bool, err error) error {
	switch {
	case err == nil:
		return nil
	case told && onlyLeft(err):
		p.of.logger.Warn("member ended with work left", zap.String("member", p.name), zap.Error(err))
		return nil
	}
	return &RunnableError{Name: p.name, Err: err}
}

// undone is the error of a member that ended before its work was done, such as
// recorder.ErrUnwritten. Package recorder is not imported: it links the whole clientset.
type undone interface{ Undone() }

// onlyLeft reports whether an error only names the work that was left when a member was told to
// end.
func onlyLeft(err error) bool {
	switch e := err.(type) {
	case *eventqueue.DrainError, undone:
		return true
	case interface{ Unwrap() error }:
		return onlyLeft(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !onlyLeft(one) })
	}
	return false
}

// errOther is the cause for the other members when one member fails to sync.
var errOther = errors.New("another member of the manager failed")

func (p *Membership) waitForSync(ctx context.Context, member informer.Runnable) error {
	ctx, cancel := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-p.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watcher.Wait()
	defer cancel()
	p.of.mu.Lock()
	err := p.refused
	p.of.mu.Unlock()
	if err == nil {
		err = member.WaitForSync(ctx)
	}
	select {
	case <-p.stopping:
		return nil
	default:
		return err
	}
}
