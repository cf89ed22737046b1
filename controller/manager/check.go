package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
)

var (
	errNotRunning = errors.New("does not run")
	errEnding     = errors.New("is ending")
)

// check is the health of a member.
type check struct {
	name string
	note string // shown if err is nil
	err  error
}

// Alive returns nil, or a [*RunnableError] for each member that has ended by itself, does not answer,
// or reports that it is dead: see [LivenessChecker]. One is of the election if led members work on after the
// lease was lost: see leader.Elector.Alive. /healthz returns this result: a restart
// of the process may help.
func (m *Manager) Alive() error { return joined(m.alive(context.Background())) }

// Ready returns nil, or a [*RunnableError] for each member that is not ready. /readyz returns this
// result. Led members do not count while another process leads. A manager that does not run, or is
// ending, is not ready.
func (m *Manager) Ready() error { return joined(m.ready(context.Background())) }

// WaitForSync waits until all members that this process runs are synced. It waits for led members
// only if there is no election. It fails when ctx ends, or as soon as one member fails to sync. The
// error then holds the error of each unsynced member: an [*informer.SyncError] for each informer.
// WaitForSync does not wait for members that are stopped or added meanwhile.
func (m *Manager) WaitForSync(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	memberships, members := m.list()
	errs := make([]error, len(members))
	var waiting sync.WaitGroup
	for n, p := range memberships {
		if p.runs == leaderOnly && m.elector != nil {
			continue
		}
		waiting.Go(func() {
			if errs[n] = p.waitForSync(ctx, members[n]); errs[n] != nil {
				cancel(errOther)
			}
		})
	}
	waiting.Wait()
	return errors.Join(errs...)
}

func joined(checks []check) error {
	var errs []error
	for _, c := range checks {
		if c.err != nil {
			errs = append(errs, &RunnableError{Name: c.name, Err: c.err})
		}
	}
	return errors.Join(errs...)
}

// ask asks all members at the same time.
func (m *Manager) ask(ctx context.Context, use func(p *Membership, alive, ready error) check) []check {
	memberships, members := m.list()
	checks := make([]check, len(memberships))
	var asking sync.WaitGroup
	for n, p := range memberships {
		asking.Go(func() {
			alive, ready := p.ask(ctx, members[n])
			checks[n] = use(p, alive, ready)
		})
	}
	asking.Wait()
	return checks
}

func (m *Manager) alive(ctx context.Context) []check {
	checks := m.ask(ctx, func(p *Membership, alive, _ error) check { return check{name: p.name, note: "alive", err: alive} })
	if m.elector != nil {
		checks = append(checks, check{name: "election", note: "alive", err: m.elector.Alive()})
	}
	return checks
}

func (m *Manager) ready(ctx context.Context) []check {
	leads := m.elector == nil || m.elector.Leading()
	checks := m.ask(ctx, func(p *Membership, _, ready error) check {
		if p.runs == leaderOnly && !leads {
			return check{name: p.name, note: "waits for the lease"}
		}
		return check{name: p.name, note: "ready", err: ready}
	})
	return append([]check{m.itself(leads)}, checks...)
}

// itself returns the health of the manager.
func (m *Manager) itself(leads bool) check {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := check{name: "manager", note: "runs"}
	if m.elector != nil {
		c.note = map[bool]string{true: "leads", false: "follows"}[leads]
	}
	switch {
	case m.ending == nil:
		c.err = errNotRunning
	case lifecycle.IsClosed(m.ending):
		c.err = errEnding
	}
	return c
}

// Healthz returns a handler that answers 200 as long as [Manager.Alive] returns nil, and otherwise
// 503. The answer has one line for each member if a check fails or the query contains verbose. A member
// that does not answer within 5 seconds counts as dead. The kubelet waits one second unless the probe
// sets timeoutSeconds: with more than 5, the answer names the member.
func (m *Manager) Healthz() http.Handler { return answering(m.alive) }

// Readyz is Healthz for [Manager.Ready].
func (m *Manager) Readyz() http.Handler { return answering(m.ready) }

// answering returns an HTTP handler for checks.
func answering(checks func(context.Context) []check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, text := http.StatusOK, "ok\n"
		var lines strings.Builder
		for _, c := range checks(r.Context()) {
			if c.err != nil {
				code, text = http.StatusServiceUnavailable, "failed\n"
				fmt.Fprintf(&lines, "[-] %s: %s\n", c.name, strings.ReplaceAll(c.err.Error(), "\n", "; "))
				continue
			}
			fmt.Fprintf(&lines, "[+] %s: %s\n", c.name, c.note)
		}
		if code != http.StatusOK || r.URL.Query().Has("verbose") {
			text = lines.String() + text
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff") // names and errors come from other code
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	})
}

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

// ask asks the member for its health, and waits at most for answerLimit.
func (p *Membership) ask(ctx context.Context, member informer.Runnable) (alive, ready error) {
	p.manager.mu.Lock()
	asked := p.probe
	if asked == nil {
		asked = &probe{done: make(chan struct{})}
		p.probe = asked
		go p.answer(asked, member)
	}
	p.manager.mu.Unlock()
	timer := time.NewTimer(answerLimit)
	defer timer.Stop()
	select {
	case <-asked.done:
		alive, ready = asked.alive, asked.ready
	case <-timer.C:
		alive = fmt.Errorf("no answer for %v: %w", answerLimit, ErrStuck)
		ready = alive
	case <-ctx.Done():
		alive = context.Cause(ctx)
		ready = alive
	}
	p.manager.mu.Lock()
	defer p.manager.mu.Unlock()
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
	p.manager.mu.Lock()
	p.probe = nil
	p.manager.mu.Unlock()
	close(asked.done)
}

// startLimit is the time within which an informer that is not a member must start. A program may
// call the informer's Run in a goroutine just before the manager's Run.
const startLimit = time.Second

// checkInformers returns an error for each reconciler with an informer that is not a member and
// does not start within startLimit. Such a reconciler would wait for its first sync for ever.
func (m *Manager) checkInformers(ctx context.Context) error {
	for deadline := time.Now().Add(startLimit); ; {
		err := m.idleInformers()
		if err == nil || !time.Now().Before(deadline) {
			return err
		}
		select {
		case <-time.After(startLimit / 100):
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Manager) idleInformers() error {
	var errs []error
	memberships, members := m.list()
	for n, p := range memberships {
		reconciler, ok := members[n].(interface{ Informers() []informer.Runnable })
		if !ok {
			continue
		}
		for _, watched := range reconciler.Informers() {
			i, ok := watched.(endsLast)
			if ok && lifecycle.IsClosed(i.Stopped()) && !m.mayRun(watched, false) {
				name, _ := nameOf(watched)
				err := fmt.Errorf("informer %q %w and is no member: add it with Manager.Add, or call its Run", name, errNotRunning)
				errs = append(errs, &RunnableError{Name: p.name, Err: err})
			}
		}
	}
	return errors.Join(errs...)
}
