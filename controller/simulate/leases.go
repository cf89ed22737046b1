package simulate

import (
	"fmt"
	"time"
)

// A holder is the process that has written its name into a lease.
type holder struct {
	process  *process
	identity string
}

// got notes that a process has written its name into a lease. It leads from then on if it has taken the lease
// from another process, or is the first one of the run. Any other lease is its own, such as a heartbeat.
func (w *world) got(lease target, p *process, identity string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.leases[lease]
	w.leases[lease] = holder{p, identity}
	if w.terms[p] == nil {
		w.terms[p] = map[target]bool{}
	}
	w.terms[p][lease] = true
	if last.process == p || last.process == nil && p.number > 0 {
		return
	}
	if last.process != nil && last.process.alive.Err() == nil && last.identity == identity {
		w.twins = true // both renew it
		return
	}
	if last.process != nil {
		w.takeovers++
	} else if p.leads.Load() != 0 {
		return // a further lease of the first process
	}
	p.leads.Store(time.Now().UnixNano())
	w.wake()
}

// maxTakeovers is how often a lease may change hands in a run.
const maxTakeovers = 20

// noticeLeaders lets the run go on for a while after each process that takes over. The one before is no
// longer cut off, so that it can be a candidate again. It reports whether the run can go on.
func (w *world) noticeLeaders() bool {
	for _, p := range w.processes {
		at := p.leads.Load()
		if at == p.noticed {
			continue
		}
		p.noticed, w.moved = at, time.Now()
		w.tell("p%d has the lease", p.number)
		for _, other := range w.processes {
			if other != p {
				other.cutOff.Store(false)
			}
		}
	}
	w.mu.Lock()
	takeovers := w.takeovers
	w.mu.Unlock()
	if takeovers > maxTakeovers {
		w.fails(fmt.Errorf("the operator does not settle: its processes have taken a lease from each other %d times", takeovers))
		return false
	}
	return true
}

// led reports whether a process that lives has a lease, if the operator has one at all.
func (w *world) led() bool {
	if w.undisturbed == nil || !w.undisturbed.elects {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.leases {
		if h.process.alive.Err() == nil && !h.process.cutOff.Load() {
			return true
		}
	}
	return false
}

// checkLeader requires that a process writes nothing once other processes have all of its leases.
func (w *world) checkLeader(m *message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overlap != nil || len(w.terms[m.process]) == 0 {
		return
	}
	for lease := range w.terms[m.process] {
		if w.leases[lease].process == m.process {
			return
		}
	}
	w.overlap = &m.target
}
