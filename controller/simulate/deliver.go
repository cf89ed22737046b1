package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A hold keeps the events of a resource from a process.
type hold struct {
	clause
	left  int       // writes
	until time.Time // zero as long as the process waits for its lease: then it is set
	of    *process
}

// A point is where a run was: the server's version, and the steps done.
type point struct {
	version uint64
	step    int
}

// failing refuses all writes with a name until a time.
type failing struct {
	clause
	name    string
	until   time.Time
	refused int
}

// maxHold ends a hold by writes: the operator may wait for an event without writing.
const maxHold = 10 * time.Second

// wake lets the driver look again.
func (w *world) wake() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// wait holds a message until the driver delivers it.
func (w *world) wait(ctx context.Context, m *message) (*verdict, error) {
	if m.target.unscheduled() {
		return &verdict{}, nil
	}
	m.verdict = make(chan *verdict, 1)
	w.mu.Lock()
	w.waiting = append(w.waiting, m)
	w.mu.Unlock()
	w.wake()
	var err error
	select {
	case v := <-m.verdict:
		return v, nil
	case <-m.process.alive.Done():
		err = errCrashed
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(other *message) bool { return other == m })
	return nil, err
}

// serve lets the server handle a request. It reports whether the server has ended the connection instead
// of finishing the answer, as with a fault.
func serve(s *reflectortest.Server, to http.ResponseWriter, r *http.Request) (broken bool) {
	defer func() {
		switch e := recover(); e {
		case nil:
		case http.ErrAbortHandler:
			broken = true
		default:
			panic(e)
		}
	}()
	s.ServeHTTP(to, r)
	return false
}

// What a client gets if the server ends the connection before an answer, or during it.
var (
	errRefused = &net.OpError{Op: "dial", Net: "simulate", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "simulate", Err: syscall.ECONNRESET}
)

// endHolds lets the events go that a hold has kept for long enough.
func (w *world) endHolds() {
	for _, h := range w.holds {
		if at := h.of.leads.Load(); (h.verb == standbyBehind || h.verb == restartBehind) && at != 0 {
			h.until = time.Unix(0, at).Add(maxHold)
		}
	}
	w.holds = slices.DeleteFunc(w.holds, func(h *hold) bool {
		ended := h.left <= 0 || !h.until.IsZero() && !time.Now().Before(h.until) || !slices.Contains(w.processes, h.of)
		if ended && (h.verb == standbyBehind || h.verb == restartBehind) {
			w.moved = time.Now() // the operator may need a while to act on what it now hears
		}
		return ended
	})
	for _, p := range w.processes {
		if p.behind.Load() != 0 && !slices.ContainsFunc(w.holds, func(h *hold) bool { return h.verb == restartBehind && h.of == p }) {
			p.behind.Store(0)
		}
	}
}

// holding reports whether a hold delays what the operator does.
func (w *world) holding() bool {
	return slices.ContainsFunc(w.holds, func(h *hold) bool { return !h.until.IsZero() })
}

// pick takes the next message that nothing holds.
func (w *world) pick() *message {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.waiting, func(a, b *message) int {
		return cmp.Or(
			cmp.Compare(a.class, b.class),
			cmp.Compare(a.process.number, b.process.number),
			cmp.Compare(a.target.gvr.Resource, b.target.gvr.Resource),
			cmp.Compare(a.target.gvr.Group, b.target.gvr.Group),
			cmp.Compare(a.seq, b.seq),
			cmp.Compare(a.target.namespace, b.target.namespace),
			cmp.Compare(a.target.name, b.target.name),
			cmp.Compare(a.verb, b.verb),
			cmp.Compare(a.target.subresource, b.target.subresource),
			cmp.Compare(a.tie, b.tie),
		)
	})
	for i, m := range w.waiting {
		if m.class == event && w.held(m) {
			continue
		}
		w.waiting = slices.Delete(w.waiting, i, i+1)
		return m
	}
	return nil
}

func (w *world) held(m *message) bool {
	return m.verb != bookmark && slices.ContainsFunc(w.holds, func(h *hold) bool {
		return h.of == m.process && (h.what == everything || h.what == m.target.gvr.Resource)
	})
}

// deliver lets one message go on, as the schedule says.
func (w *world) deliver(m *message) {
	if m.class != request {
		resource := m.target.gvr.Resource
		if m.class == event && m.verb != bookmark && w.expired[resource] {
			delete(w.expired, resource)
			w.note(m, "410 Expired instead of the event")
			m.verdict <- &verdict{status: &metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version: simulate",
			}}
			return
		}
		if m.seen != nil {
			m.seen()
		}
		if m.class == event {
			w.note(m, "event")
		}
		m.verdict <- &verdict{}
		return
	}
	if standby := m.process.number > 0 && m.process.leads.Load() == 0 && w.schedule.standby(); w.busy() && !standby {
		w.result.requests++
	}
	if !isWrite(m.verb) {
		if m.verb == "watch" && !slices.Contains(w.result.watched, m.target.gvr.Resource) {
			w.result.watched = append(w.result.watched, m.target.gvr.Resource)
		}
		if m.verb == "get" {
			w.deliverGet(m)
			return
		}
		w.note(m, "")
		m.verdict <- &verdict{}
		return
	}
	w.deliverWrite(m)
}

// deliverGet lets a read of one object go on, which a line can refuse, too.
func (w *world) deliverGet(m *message) {
	name := "get " + w.alias(m.target)
	w.counts[name]++
	id := fmt.Sprintf("%s#%d", name, w.counts[name])
	w.tell("p%d %s", m.process.number, id)
	v := &verdict{}
	for i, c := range w.schedule {
		if c.verb == fail && c.at == id && !w.fired[i] {
			w.fired[i] = true
			w.tell("  ** %s", c)
			w.fail(c, name, m.target, v)
		}
	}
	w.keepFailing(name, m.target, v)
	m.verdict <- v
}

// fail refuses a request, and with a duration those after it with its name.
func (w *world) fail(c clause, name string, t target, v *verdict) {
	v.status = refusal(c.what, t)
	w.moved = time.Now() // the operator has to try again
	if c.since > 0 {
		w.failing = append(w.failing, &failing{clause: c, name: name, until: time.Now().Add(c.since)})
	}
}

// keepFailing refuses a request if those with its name fail now, and reports whether they do.
func (w *world) keepFailing(name string, t target, v *verdict) (fails bool) {
	for _, f := range w.failing {
		if f.name == name && time.Now().Before(f.until) {
			fails = true
			f.refused++
			v.status = refusal(f.what, t)
			w.moved = time.Now()
		}
	}
	return fails
}

// deliverWrite lets a write go on, after the time that it takes.
func (w *world) deliverWrite(m *message) {
	name := m.verb + " " + w.alias(m.target)
	w.counts[name]++
	id := fmt.Sprintf("%s#%d", name, w.counts[name])
	m.id, w.result.last = id, id
	w.written++
	w.before[id] = point{w.server.ResourceVersion(), w.next}
	if !w.disturbance {
		w.result.writes, w.result.steps = append(w.result.writes, id), append(w.result.steps, w.next)
	}
	for _, h := range w.holds {
		h.left--
	}
	latency := 10 * time.Millisecond // without any, a loop that writes the time would stand still
	if w.schedule.has(slow) {
		latency = 1100 * time.Millisecond
	}
	time.Sleep(latency)
	synctest.Wait()
	w.tell("p%d %s", m.process.number, id)
	v := &verdict{}
	var after []func()
	for i, c := range w.schedule {
		if w.fired[i] || c.at != id || c.verb == restartBehind {
			continue
		}
		w.fired[i] = true
		w.tell("  ** %s", c)
		switch c.verb {
		case crashBefore:
			w.lagNext()
			m.process.kill()
			return
		case crashAfter:
			w.lagNext()
			v.crash = true
		case fail:
			w.fail(c, name, m.target, v)
		case lose:
			v.lose = true
		case expire:
			w.expired[c.what] = true
		case holdEvents:
			h := &hold{clause: c, left: c.n, until: time.Now().Add(maxHold), of: m.process}
			if c.since > 0 {
				h.left, h.until = maxWrites, time.Now().Add(c.since)
			}
			w.holds = append(w.holds, h)
		case standbyBehind:
			w.fired[i] = len(w.processes) > 1
			for _, p := range w.processes {
				if p != m.process {
					w.holds = append(w.holds, &hold{clause: clause{verb: standbyBehind, what: everything}, left: math.MaxInt, of: p})
				}
			}
		case leaseLost:
			if w.fired[i] = len(w.processes) > 1 && m.process.leads.Load() != 0; w.fired[i] {
				m.process.mayEnd = true
				m.process.cutOff.Store(true)
			}
		case stopAfter:
			after = append(after, func() {
				m.process.mayEnd, m.process.stopping = true, time.Now()
				m.process.stop()
			})
		case restoreBefore:
			w.backup = w.before[id]
		case stepBefore:
			w.stepEarly()
		case stepAfter:
			after = append(after, func() { w.stepEarly() })
		case annotateAfter:
			after = append(after, func() { w.annotate(m.target) })
		}
	}
	if w.keepFailing(name, m.target, v) {
		w.written-- // it is judged by its rate
	}
	m.verdict <- v
	if w.schedule.has(compact) && !w.schedule.has(restoreBefore) && !w.schedule.has(restartBehind) { // both need the history
		after = append(after, func() {
			if err := w.server.Compact(w.server.ResourceVersion()); err != nil {
				w.result.fail(compact, "the server cannot compact: %v", err)
			}
		})
	}
	if len(after) > 0 {
		synctest.Wait()
		w.checkNow() // before another client changes the state
		for _, do := range after {
			do()
		}
	}
}

// lagNext lets the next process begin behind the write that the schedule names.
func (w *world) lagNext() {
	for i, c := range w.schedule {
		if at, ok := w.before[c.at]; ok && c.verb == restartBehind && !w.fired[i] && len(w.processes) == 1 {
			w.fired[i] = true
			w.tell("  ** %s", c)
			w.restart = &at.version
		}
	}
}

// refusal is the answer to a write that the schedule refuses.
func refusal(what string, t target) *metav1.Status {
	s := &metav1.Status{Details: &metav1.StatusDetails{Name: t.name, Group: t.gvr.Group, Kind: t.gvr.Resource}}
	switch what {
	case "409":
		s.Code, s.Reason = http.StatusConflict, metav1.StatusReasonConflict
		s.Message = fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified; please apply your changes to the latest version and try again", t.gvr.Resource, t.name)
	case "429":
		s.Code, s.Reason, s.Message = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later (simulate)"
		s.Details.RetryAfterSeconds = 1
	case "denied":
		s.Code, s.Reason, s.Message = http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "simulate" denied the request`
	default:
		s.Code, s.Reason, s.Message = http.StatusInternalServerError, metav1.StatusReasonInternalError, "Internal error occurred: simulate"
	}
	return s
}

// note and tell write the trace. Bookmarks would be most of it.
func (w *world) note(m *message, what string) {
	if w.scenario.traced && m.verb != bookmark {
		w.tell("p%d %s", m.process.number, strings.TrimSpace(fmt.Sprintf("%s %s %s", what, m.verb, w.alias(m.target))))
	}
}

func (w *world) tell(format string, args ...any) {
	if w.scenario.traced {
		w.result.trace = append(w.result.trace, fmt.Sprintf(format, args...))
	}
}
