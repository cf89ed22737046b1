package manager

import (
	"context"
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/informer"
)

// LivenessChecker is a member that reports whether it is alive. Any other member is alive if it
// answers.
type LivenessChecker interface {
	// Alive returns nil, or the reason to restart the process. It must return soon.
	Alive() error
}

// probe is a question to a member. A hanging member is asked only once.
type probe struct {
	done chan struct{}
	// Set before done is closed.
	alive, ready error
}

// ask asks the member for its health, and waits at most for a limit.
func (p *Membership) ask(ctx context.Context, member informer.Runnable, limit time.Duration) (alive, ready error) {
	p.of.mu.Lock()
	asked := p.probe
	if asked == nil {
		asked = &probe{done: make(chan struct{})}
		p.probe = asked
		go p.answer(asked, member)
	}
	p.of.mu.Unlock()
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
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.refused != nil {
		ready = p.refused
	}
	if p.ended {
		alive = p.err
		if alive == nil {
			alive = ErrEnded
		}
		ready = alive
	}
	return alive, ready
}

func (p *Membership) answer(asked *probe, member informer.Runnable) {
	if checker, ok := member.(LivenessChecker); ok {
		asked.alive = checker.Alive()
	}
	asked.ready = member.Ready()
	p.of.mu.Lock()
	p.probe = nil
	p.of.mu.Unlock()
	close(asked.done)
}
