package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"go.uber.org/zap"
)

// Living is a member that reports whether it is alive. Without it, a member that answers is alive.
type Living interface {
	// Alive returns nil, or the reason to restart the process. It must return soon.
	Alive() error
}

// place is a member in a manager. It adds the member's name to errors.
type place struct {
	of         *Manager
	member     informer.Member
	name       string
	led        bool
	membership atomic.Pointer[informer.Membership]

	// mu protects the fields below it.
	mu    sync.Mutex
	ended bool // by itself
	err   error
	probe *probe // nil unless one is running
}

// around calls run, and interprets its result.
func (p *place) around(ctx context.Context, run func(context.Context) error) error {
	p.note(false, nil)
	err := run(ctx)
	if ctx.Err() != nil && onlyLeft(err) {
		p.of.logger.Warn("member ended with keys left", zap.String("member", p.name), zap.Error(err))
		return nil
	}
	if err != nil {
		err = &MemberError{Member: p.name, Err: err}
	}
	if ctx.Err() != nil {
		return err // the member was told to end
	}
	p.note(true, err)
	if err == nil {
		return nil
	}
	// A group ends all its members when one fails. The led members must end before the others.
	p.of.end()
	<-ctx.Done()
	return err
}

// onlyLeft reports whether an error only names the keys that were left when a member was told to
// end. That is not a failure of the member.
func onlyLeft(err error) bool {
	switch e := err.(type) {
	case *eventqueue.DrainError:
		return true
	case interface{ Unwrap() error }:
		return onlyLeft(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !onlyLeft(one) })
	}
	return false
}

func (p *place) note(ended bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.err = ended, err
}

// gone reports whether the member was stopped.
func (p *place) gone() bool {
	membership := p.membership.Load()
	if membership == nil {
		return false // Add is not finished
	}
	select {
	case <-membership.Done():
		return true
	default:
		return false
	}
}

// probe is a question to a member. A hanging member is asked only once.
type probe struct {
	done chan struct{}
	// Set before done is closed.
	alive, ready error
}

// ask asks the member for its health, and waits at most for a limit.
func (p *place) ask(ctx context.Context, limit time.Duration) (alive, ready error) {
	p.mu.Lock()
	asked := p.probe
	if asked == nil {
		asked = &probe{done: make(chan struct{})}
		p.probe = asked
		go p.answer(asked)
	}
	p.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-asked.done:
		alive, ready = asked.alive, asked.ready
	case <-timer.C:
		alive = fmt.Errorf("no answer for %v: %w", limit, ErrStuck)
		ready = alive
	case <-ctx.Done():
		alive = context.Cause(ctx)
		ready = alive
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		alive = p.err
		if alive == nil {
			alive = ErrEnded
		}
		ready = alive
	}
	return alive, ready
}

func (p *place) answer(asked *probe) {
	if living, ok := p.member.(Living); ok {
		asked.alive = living.Alive()
	}
	asked.ready = p.member.Ready()
	p.mu.Lock()
	p.probe = nil
	p.mu.Unlock()
	close(asked.done)
}
