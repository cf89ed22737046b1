package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
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
// or reports that it is dead: see [LivenessChecker]. /healthz returns this result: a restart
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
	places, members := m.list()
	errs := make([]error, len(members))
	var waiting sync.WaitGroup
	for n, p := range places {
		if p.led && m.elector != nil {
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
	places, members := m.list()
	checks := make([]check, len(places))
	var asking sync.WaitGroup
	for n, p := range places {
		asking.Go(func() {
			alive, ready := p.ask(ctx, members[n], m.answer)
			checks[n] = use(p, alive, ready)
		})
	}
	asking.Wait()
	return checks
}

func (m *Manager) alive(ctx context.Context) []check {
	return m.ask(ctx, func(p *Membership, alive, _ error) check { return check{name: p.name, note: "alive", err: alive} })
}

func (m *Manager) ready(ctx context.Context) []check {
	leads := m.elector == nil || m.elector.Leading()
	checks := m.ask(ctx, func(p *Membership, _, ready error) check {
		if p.led && !leads {
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
	if m.ending == nil {
		c.err = errNotRunning
		return c
	}
	select {
	case <-m.ending:
		c.err = errEnding
	default:
	}
	return c
}

// Healthz returns a handler that answers 200 as long as [Manager.Alive] returns nil, and otherwise
// 503. The answer has one line for each member if a check fails or the query contains verbose.
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
