package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is one run: the server, the operator's process, and the driver, which is the goroutine of run.
//
// Only one goroutine at a time uses its fields, because the driver delivers one message, and then waits
// until everything is blocked again. Requests that nobody schedules run beside it, and touch only what mu
// guards.
type world struct {
	scenario *Scenario
	schedule schedule
	fired    []bool // by clause
	server   *reflectortest.Server
	watchdog *watchdog
	result   *result
	// undisturbed is the run to compare with, or nil in the undisturbed run itself.
	undisturbed *result

	mu      sync.Mutex
	waiting []*message // guarded by mu
	panics  []string   // guarded by mu
	overlap string     // a write of a process that has lost its lease; guarded by mu
	// processes are those that live, in the order of their start; the driver writes them under mu.
	processes []*process
	// doubtful means that a panic may be another run's; guarded by mu.
	doubtful bool
	arrived  chan struct{} // has an element when a message was added; capacity 1

	counts    map[string]int    // writes by name, delivered or refused
	before    map[string]uint64 // the server's version before a write, by name and count
	generated map[string]string // the prefix of each generated name: the rest differs from run to run
	aliases   []string          // pairs of a generated name and what lines call it; the newest first, which may contain an earlier one
	aliasing  *strings.Replacer // of aliases
	holds     []*hold
	failing   []*failing
	expired   map[string]bool // resources whose next event is a 410 instead
	annotated []annotation
	restart   *uint64 // the version that the next process lags behind
	backup    uint64  // the version to which the server returns once the operator has settled, or 0
	started   int     // processes

	next        int       // step
	moved       time.Time // when something was written last
	checked     uint64    // the version at which Invariant was checked last
	written     int       // writes of the operator since the last step
	played      int       // how often the players wrote since the last step
	delivered   int       // messages at the time deliveredAt
	deliveredAt time.Time
	collect     time.Time // when the garbage collector looks again; never if it is zero
	playedAt    uint64    // the version at which the players acted last
	playAgain   time.Time // when a player wants to act again; never if it is zero
	disturbance bool      // a crash has happened: later writes are no place for a first disturbance
}

// A hold keeps the events of a resource from a process.
type hold struct {
	clause
	left  int       // writes
	until time.Time // never, if it is zero: the process is a standby that has not yet taken over
	of    *process
}

// failing refuses all writes with a name until a time.
type failing struct {
	clause
	name    string
	until   time.Time
	refused int
}

// maxWrites is how many writes may follow a step before the run counts as one that never settles, and
// maxAtOnce how many messages may be delivered without time passing.
const (
	maxWrites = 300
	maxAtOnce = 10_000
)

// maxHold ends a hold by writes: the operator may wait for an event without writing.
const maxHold = 10 * time.Second

// grace is how long a process may take to end by itself, as in a Pod by default.
const grace = 30 * time.Second

// earlyQuiet is how long nothing is written until the state is compared for the first time. It is longer
// than the back-off of an operator that a schedule has disturbed for some seconds.
const earlyQuiet = 30 * time.Second

// bookmarkInterval is longer than the server's minute: bookmarks cost time, and no client misses them.
const bookmarkInterval = 4 * time.Minute

// collectEvery is how long the garbage collector takes. Without it, an operator that has not yet seen a
// deletion would fight with it. It is longer than the random pause of client-go before it watches again,
// so that the order of the two does not depend on chance.
const collectEvery = 5 * time.Second

func newWorld(t *testing.T, s *Scenario, dog *watchdog, undisturbed *result, line schedule) *world {
	options := append([]reflectortest.Option{reflectortest.WithBookmarkInterval(bookmarkInterval)}, s.Server...)
	return &world{
		scenario: s, schedule: line, undisturbed: undisturbed, fired: make([]bool, len(line)), server: reflectortest.Start(t, options...), watchdog: dog,
		result:  &result{after: map[int]state{}, created: map[string]int{}, deleted: map[string]int{}, removed: map[string]int{}},
		arrived: make(chan struct{}, 1), counts: map[string]int{}, before: map[string]uint64{}, generated: map[string]string{}, expired: map[string]bool{},
	}
}

// run plays the schedule.
func (w *world) run(ctx context.Context) *result {
	ctx = context.WithValue(ctx, worldKey{}, w)
	w.result.retried = slices.ContainsFunc(w.schedule, func(c clause) bool { return c.since > 0 && c.verb == fail })
	for i, c := range w.schedule {
		w.fired[i] = c.verb == slow || c.verb == compact
	}
	w.start(ctx)
	settled := w.settle(ctx)
	if settled && w.schedule.standby() {
		if settled = w.undisturbed.elects; settled {
			w.start(ctx)
			settled = w.settle(ctx)
		} else {
			w.fails(errors.New("there is no standby: the operator holds no Lease, so both processes would act"))
		}
	}
	for settled && w.next < len(w.scenario.Steps) {
		if when := w.scenario.Steps[w.next].When; when != nil && !when(w.server) {
			w.fails(fmt.Errorf("step %d (%s): its When has not become true", w.next+1, w.scenario.Steps[w.next].Name))
			break
		}
		w.step()
		for w.joined(w.next) && w.stepEarly() {
		}
		settled = w.settle(ctx)
	}
	for i, c := range w.schedule {
		if !w.fired[i] {
			w.result.missed = append(w.result.missed, c)
		}
	}
	if settled {
		w.checkDeletions()
	}
	for _, p := range w.processes {
		w.result.elects = w.result.elects || p.leads.Load() != 0
		p.kill()
		w.awaitEnd(p)
	}
	// What the operator left sleeping ends, rather than keep this world for ever.
	time.Sleep(time.Minute)
	synctest.Wait()
	w.checkPanics()
	return w.result
}

// joined reports whether the step after the n-th one follows at once.
func (w *world) joined(n int) bool {
	for i, c := range w.schedule {
		if c.verb == together && c.n == n && n < len(w.scenario.Steps) {
			w.fired[i] = true
			return true
		}
	}
	return false
}

// start starts a process of the operator.
func (w *world) start(ctx context.Context) {
	running, stop := context.WithCancel(ctx)
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{world: w, number: w.started, alive: alive, kill: func() { kill(); stop() }, stop: stop, done: make(chan error, 1), known: map[target]version{}, cached: map[target]version{}}
	w.started++
	if w.restart != nil {
		p.behind.Store(*w.restart)
		w.restart = nil
		w.holds = append(w.holds, &hold{clause: clause{verb: restartBehind, what: everything}, left: maxWrites, until: time.Now().Add(maxHold), of: p})
	}
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	go func() {
		var err error
		defer func() {
			if value := recover(); value != nil {
				handlers.note(running, value)
				err = fmt.Errorf("it panics: %.300v", value)
			}
			stop()
			p.done <- err
			w.wake()
		}()
		err = w.scenario.Operator(running, p.config())
	}()
}

// awaitEnd waits until a killed process has returned from Operator.
func (w *world) awaitEnd(p *process) {
	timer := time.NewTimer(10 * time.Minute)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		w.result.fail("never ends", "the operator does not return within ten minutes after its context has ended")
	}
	synctest.Wait()
}

// reap takes processes that have ended from those that live, and starts one if none is left. It reports
// whether any has ended, and whether the run can go on: an operator does not end by itself.
func (w *world) reap(ctx context.Context) (ended, ok bool) {
	for _, p := range slices.Clone(w.processes) {
		select {
		case err := <-p.done:
			p.done <- err
			switch {
			case p.alive.Err() != nil || !p.stopping.IsZero() || p.cutOff.Load():
				p.kill()
			default:
				w.fails(fmt.Errorf("the operator ended by itself: %w", cmp.Or(err, errNil)))
				return false, false
			}
		default:
			if !p.stopping.IsZero() && time.Since(p.stopping) >= grace {
				p.kill()
			}
		}
		if p.alive.Err() != nil {
			ended, w.disturbance = true, true
			w.awaitEnd(p)
			w.mu.Lock()
			w.processes = slices.DeleteFunc(w.processes, func(other *process) bool { return other == p })
			w.mu.Unlock()
		}
	}
	if len(w.processes) == 0 {
		w.start(ctx)
	}
	return ended, true
}

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

// serve lets the server handle a request.
func (w *world) serve(to http.ResponseWriter, r *http.Request) {
	defer func() {
		if e := recover(); e != nil && e != http.ErrAbortHandler {
			panic(e)
		}
	}()
	w.server.ServeHTTP(to, r)
}

// settle delivers messages until the operator has settled, and notes the state. It reports whether the
// operator came so far: it may end, or write for ever.
//
// Most of a run's cost are the timers of the operator that fire while nothing is written. So a cluster
// that is already as in the undisturbed run counts as settled much earlier.
func (w *world) settle(ctx context.Context) bool {
	quiet := cmp.Or(w.scenario.Quiet, 20*time.Minute)
	w.moved = time.Now()
	w.written, w.delivered, w.played = 0, 0, 0
	early := min(earlyQuiet, quiet)
	if w.undisturbed == nil {
		early = quiet
	}
	for {
		synctest.Wait()
		w.watchdog.progress.Add(1)
		if ended, ok := w.reap(ctx); !ok {
			return false
		} else if ended {
			w.moved = time.Now()
			continue
		}
		if !w.checkNow() {
			return false
		}
		w.endHolds()
		if m := w.pick(); m != nil {
			if now := time.Now(); now.After(w.deliveredAt) {
				w.delivered, w.deliveredAt = 0, now
			}
			if w.delivered++; w.delivered > maxAtOnce {
				w.fails(fmt.Errorf("the operator does not settle: it sends requests without a pause, the last one is %s %s", m.verb, w.alias(m.target)))
				return false
			}
			w.deliver(m)
			continue
		}
		if w.next < len(w.scenario.Steps) {
			if when := w.scenario.Steps[w.next].When; when != nil && when(w.server) {
				w.step()
				continue
			}
		}
		if w.play() {
			if w.played++; w.played > maxWrites {
				w.fails(errors.New("the players do not settle: one of them writes each time that it is called"))
				return false
			}
			continue
		}
		still := time.Since(w.moved)
		if still >= early && !w.holding() && !w.stopping() {
			if w.backup != 0 {
				w.restore()
				continue
			}
			w.checkObjects()
			now := w.state()
			if still >= quiet || now.equal(w.undisturbed.after[w.next]) {
				w.result.after[w.next] = now
				return true
			}
			early = quiet
		}
		left := early - still
		if left <= 0 {
			left = quiet // only a hold keeps the run from being settled, and it ends before
		}
		for _, at := range []time.Time{w.collect, w.playAgain} {
			if !at.IsZero() {
				left = min(left, time.Until(at))
			}
		}
		for _, h := range w.holds {
			if !h.until.IsZero() {
				left = min(left, time.Until(h.until))
			}
		}
		for _, p := range w.processes {
			if !p.stopping.IsZero() {
				left = min(left, time.Until(p.stopping.Add(grace)))
			}
		}
		timer := time.NewTimer(max(left, time.Millisecond))
		select {
		case <-w.arrived:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// endHolds lets the events go that a hold has kept for long enough.
func (w *world) endHolds() {
	for _, h := range w.holds {
		if at := h.of.leads.Load(); h.verb == standbyBehind && at != 0 {
			h.until = time.Unix(0, at).Add(maxHold)
		}
	}
	w.holds = slices.DeleteFunc(w.holds, func(h *hold) bool {
		return h.left <= 0 || !h.until.IsZero() && !time.Now().Before(h.until) || !slices.Contains(w.processes, h.of)
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

func (w *world) stopping() bool {
	return slices.ContainsFunc(w.processes, func(p *process) bool { return !p.stopping.IsZero() })
}

// restore plays a server that comes back from a backup. The operator restarts, as an administrator is
// told to do then: no client notices by itself that versions were used before.
func (w *world) restore() {
	w.tell("the server comes back from the backup")
	for _, p := range w.processes {
		p.kill()
	}
	if err := w.server.Restore(w.backup); err != nil {
		w.result.fail("restore", "the server cannot be restored: %v", err)
	}
	w.backup, w.result.restored = 0, true
	w.annotated, w.playedAt, w.checked, w.moved = nil, 0, 0, time.Now()
}

// busy reports whether something was written of late. Requests count only then: how long a run waits
// after that depends on what it compares.
func (w *world) busy() bool { return time.Since(w.moved) < earlyQuiet }

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
		w.note(m, "")
		m.verdict <- &verdict{}
		return
	}
	w.deliverWrite(m)
}

// deliverWrite lets a write go on, after the time that it takes.
func (w *world) deliverWrite(m *message) {
	name := m.verb + " " + w.alias(m.target)
	w.counts[name]++
	id := fmt.Sprintf("%s#%d", name, w.counts[name])
	m.id, w.result.last = id, id
	w.written++
	w.before[id] = w.server.ResourceVersion()
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
			v.status = refusal(c.what, m.target)
			if c.since > 0 {
				w.failing = append(w.failing, &failing{clause: c, name: name, until: time.Now().Add(c.since)})
			}
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
			for _, p := range w.processes {
				if p != m.process {
					w.holds = append(w.holds, &hold{clause: clause{verb: standbyBehind, what: everything}, left: maxWrites, of: p})
				}
			}
		case leaseLost:
			m.process.cutOff.Store(true)
		case stopAfter:
			after = append(after, func() {
				m.process.stopping = time.Now()
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
	for _, f := range w.failing {
		if f.name == name && time.Now().Before(f.until) {
			f.refused++
			w.written-- // it is judged by its rate
			v.status = refusal(f.what, m.target)
		}
	}
	if v.status != nil {
		w.moved = time.Now() // the operator has to try again
	}
	m.verdict <- v
	if w.schedule.has(compact) {
		after = append(after, func() {
			if err := w.server.Compact(w.server.ResourceVersion()); err != nil {
				w.result.fail(compact, "the server cannot compact: %v", err)
			}
		})
	}
	if len(after) > 0 {
		synctest.Wait()
		for _, do := range after {
			do()
		}
	}
}

// lagNext lets the next process begin behind the write that the schedule names.
func (w *world) lagNext() {
	for i, c := range w.schedule {
		if at, ok := w.before[c.at]; ok && c.verb == restartBehind && !w.fired[i] {
			w.fired[i] = true
			w.tell("  ** %s", c)
			w.restart = &at
		}
	}
}

// step lets the user act.
func (w *world) step() {
	step := w.scenario.Steps[w.next]
	w.next++
	w.tell("user: %s", step.Name)
	if err := step.Do(w.server); err != nil {
		w.fails(fmt.Errorf("step %d (%s) fails: %w", w.next, step.Name, err))
	}
	w.learnNames()
	w.moved = time.Now()
}

// fails notes that the run cannot go on as it should. An undisturbed run is then nothing to compare with.
func (w *world) fails(err error) {
	key, _, _ := strings.Cut(err.Error(), ":")
	w.result.fail(key, "%.500v", err)
	if w.undisturbed == nil {
		w.result.fatal = err
	}
}

// stepEarly lets the user act before the operator has settled, and reports whether that was possible. If
// the server refuses it, for example because the name is still taken, the user waits after all.
func (w *world) stepEarly() bool {
	if w.next >= len(w.scenario.Steps) {
		return false
	}
	step := w.scenario.Steps[w.next]
	if step.When != nil && !step.When(w.server) {
		w.tell("user: %s has to wait", step.Name)
		return false
	}
	if err := step.Do(w.server); err != nil {
		w.tell("user: %s has to wait: %v", step.Name, err)
		return false
	}
	w.next++
	w.tell("user: %s", step.Name)
	w.learnNames()
	w.moved = time.Now()
	return true
}

// play lets the garbage collector and the players act. It reports whether they changed anything.
func (w *world) play() bool {
	begin := w.server.ResourceVersion()
	if w.collect.IsZero() && begin != w.playedAt {
		w.collect = time.Now().Add(collectEvery)
	}
	if !w.collect.IsZero() && !time.Now().Before(w.collect) {
		w.collect = time.Time{}
		before := w.server.Objects()
		if w.server.CollectGarbage() {
			w.tell("the garbage collector acts")
			w.collect = time.Now().Add(collectEvery)
			left := map[string]bool{}
			for _, o := range w.server.Objects() {
				left[o.UID] = true
			}
			for _, o := range before {
				if !left[o.UID] {
					w.result.removed[groupName(w.alias(targetOf(o)))]++
				}
			}
		}
	}
	now := w.server.ResourceVersion()
	if now != w.playedAt || !w.playAgain.IsZero() && !time.Now().Before(w.playAgain) {
		w.playAgain = time.Time{}
		for _, player := range w.scenario.Players {
			again, err := player(w.server)
			if err != nil {
				w.result.fail("player", "a player fails: %.500v", err)
			}
			if at := time.Now().Add(again); again > 0 && (w.playAgain.IsZero() || at.Before(w.playAgain)) {
				w.playAgain = at
			}
		}
		w.playedAt = now
	}
	end := w.server.ResourceVersion()
	if end == begin {
		return false
	}
	if end != now {
		w.tell("the players act")
		w.learnNames()
	}
	w.moved = time.Now()
	return true
}

// alias returns a target with a name that all runs share.
func (w *world) alias(t target) string {
	t.name = w.aliasName(t.name)
	return t.String()
}

// learnNames notes the names that the server has generated for others than the operator.
func (w *world) learnNames() {
	objects := w.server.Objects()
	slices.SortFunc(objects, func(a, b *reflectortest.StoredObject) int { return cmp.Compare(a.Version, b.Version) })
	for _, o := range objects {
		w.learnName(decode(o.JSON()).string("metadata", "generateName"), o.Name)
	}
}

func (w *world) learnName(generated, name string) {
	if generated != "" && strings.HasPrefix(name, generated) && w.generated[name] == "" {
		alias := fmt.Sprintf("%s*%d", w.aliasName(generated), len(w.generated)+1)
		w.generated[name] = generated
		w.aliases = append([]string{name, alias}, w.aliases...)
		w.aliasing = strings.NewReplacer(w.aliases...)
	}
}

// aliasName replaces generated names, also within other names.
func (w *world) aliasName(name string) string {
	if w.aliasing == nil {
		return name
	}
	return w.aliasing.Replace(name)
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

// note and tell write the trace.
func (w *world) note(m *message, what string) {
	if w.scenario.traced {
		w.tell("p%d %s", m.process.number, strings.TrimSpace(fmt.Sprintf("%s %s %s", what, m.verb, w.alias(m.target))))
	}
}

func (w *world) tell(format string, args ...any) {
	if w.scenario.traced {
		w.result.trace = append(w.result.trace, fmt.Sprintf(format, args...))
	}
}
