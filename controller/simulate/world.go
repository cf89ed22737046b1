package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// world is one run: the server, the processes of the operator, and the driver, which is the goroutine of
// run.
//
// Only one goroutine at a time uses its fields, because the driver delivers one message, and then waits
// until everything is blocked again. Requests for discovery, leases and Events do not wait for the driver:
// they touch only what mu guards, and the atomics of a process.
type world struct {
	scenario *Scenario       // of this run
	lines    func() []string // of what is outside of the cluster, or nil
	schedule schedule
	fired    []bool // by clause
	server   *reflectortest.Server
	playing  *playing
	result   *result
	// undisturbed is the run to compare with, or nil in the undisturbed run itself.
	undisturbed *result

	mu      sync.Mutex
	waiting []*message // guarded by mu
	panics  []string   // guarded by mu
	overlap *target    // of a write of a process that has lost its lease; guarded by mu
	// leases has the last holder of each lease, and terms the leases that each process has had; guarded by mu.
	leases    map[target]holder
	terms     map[*process]map[target]bool
	twins     bool // two processes had one identity; guarded by mu
	takeovers int  // of leases; guarded by mu
	// processes are those that live, in the order of their start; the driver writes them under mu.
	processes []*process
	// doubtful means that a panic may be another run's; guarded by mu.
	doubtful bool
	arrived  chan struct{} // has an element when a message was added; capacity 1

	counts    map[string]int    // writes by name, delivered or refused
	before    map[string]point  // where the run was before a write, by name and count
	generated map[string]string // the prefix of each generated name: the rest depends on what was created before
	aliases   []string          // pairs of a generated name and what lines call it; the newest first, which may contain an earlier one
	aliasing  *strings.Replacer // of aliases
	holds     []*hold
	failing   []*failing
	expired   map[string]bool // resources whose next event is a 410 instead
	annotated []annotation
	restart   *uint64 // the version that the next process lags behind
	standing  bool    // the second process of the schedule has been started
	backup    point   // to which the server returns once the operator has settled, if it has a version
	started   int     // processes

	next        int       // step
	acted       time.Time // when the last step was done, but for one of Wait: then when it is over
	until       time.Time // when a step of Wait is over; zero after another step
	moved       time.Time // when something was written last
	checked     uint64    // the version at which Invariant was checked last
	written     int       // writes of the operator since the last step
	changed     []change  // what the last of too many writes has changed
	played      int       // how often the players wrote since the last step
	delivered   int       // messages at the time deliveredAt
	deliveredAt time.Time
	collect     time.Time // when the garbage collector looks again; never if it is zero
	playedAt    uint64    // the version at which the players acted last
	playAgain   time.Time // when a player wants to act again; never if it is zero
	disturbance bool      // a crash has happened: later writes are no place for a first disturbance
}

// maxWrites is how many writes may follow a step before the run counts as one that never settles, and
// maxAtOnce how many messages may be delivered without time passing.
const (
	maxWrites = 300
	maxAtOnce = 10_000
)

// earlyQuiet is how long nothing is written until the state is compared for the first time. It is longer
// than the back-off of an operator that a schedule has disturbed for some seconds.
const earlyQuiet = 30 * time.Second

// bookmarkInterval is longer than the server's minute: bookmarks cost time, and no client misses them.
const bookmarkInterval = 4 * time.Minute

// collectEvery is how long the garbage collector takes. Without it, an operator that has not yet seen a
// deletion would fight with it. It is longer than the random pause of client-go before it watches again,
// so that the order of the two does not depend on chance.
const collectEvery = 5 * time.Second

func newWorld(t *testing.T, s *Scenario, p *playing, undisturbed *result, line schedule) *world {
	own := *s
	own.Server, own.Steps, own.Players = slices.Clone(s.Server), slices.Clone(s.Steps), slices.Clone(s.Players)
	var lines func() []string
	if s.Outside != nil {
		p.call("Scenario.Outside", func() { lines = s.Outside(&own) })
	}
	options := append([]reflectortest.Option{reflectortest.WithBookmarkInterval(bookmarkInterval), reflectortest.WithStableUIDs()}, own.Server...)
	return &world{
		scenario: &own, lines: lines, schedule: line, undisturbed: undisturbed, fired: make([]bool, len(line)), server: reflectortest.Start(t, options...), playing: p,
		result:  &result{scenario: &own, after: map[int]state{}, settled: map[int]time.Time{}, created: map[string]int{}, deleted: map[string]int{}, removed: map[string]int{}},
		arrived: make(chan struct{}, 1), counts: map[string]int{}, before: map[string]point{}, leases: map[target]holder{}, terms: map[*process]map[target]bool{}, generated: map[string]string{}, expired: map[string]bool{},
	}
}

// run plays the schedule.
func (w *world) run(ctx context.Context) *result {
	ctx = context.WithValue(ctx, worldKey{}, w)
	w.acted = time.Now()
	w.result.retried = slices.ContainsFunc(w.schedule, func(c clause) bool { return c.since > 0 && c.verb == fail })
	for i, c := range w.schedule {
		w.fired[i] = c.verb == slow || c.verb == compact
	}
	if w.scenario.Operator == nil {
		w.fails(errors.New("the scenario has no Operator"))
		return w.result
	}
	w.start(ctx)
	settled := w.settle(ctx)
	if settled && w.schedule.standby() {
		if settled = w.undisturbed.elects; settled {
			w.standing = true
			w.start(ctx)
			settled = w.settle(ctx)
		} else {
			w.fails(errors.New("there is no second process, because both would act: let the operator hold a Lease, or leave the clause out"))
			for i := range w.fired {
				w.fired[i] = true
			}
		}
	}
	for settled && w.next < len(w.scenario.Steps) {
		if when := w.scenario.Steps[w.next].When; when != nil && !w.ready(when) {
			w.fails(fmt.Errorf("%s: its When has not become true", w.nextStep()))
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

// settle delivers messages until the operator has settled, and notes the state. It reports whether the
// operator came so far: it may end, or write for ever.
//
// Most of a run's cost are the timers of the operator that fire while nothing is written. So a cluster
// that is already as in the undisturbed run counts as settled much earlier, unless the operator acts by the clock.
func (w *world) settle(ctx context.Context) bool {
	quiet := cmp.Or(w.scenario.Quiet, 20*time.Minute)
	if w.until.IsZero() {
		w.moved = time.Now()
	}
	w.written, w.delivered, w.played = 0, 0, 0
	early := min(earlyQuiet, quiet)
	if w.undisturbed == nil {
		early = quiet
	}
	for {
		synctest.Wait()
		w.playing.dog.progress.Add(1)
		if ended, ok := w.reap(ctx); !ok {
			return false
		} else if ended {
			w.moved = time.Now()
			continue
		}
		if !w.checkNow() {
			return false
		}
		if !w.noticeLeaders() {
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
			if when := w.scenario.Steps[w.next].When; when != nil && w.ready(when) {
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
		if still >= early && (still >= quiet || w.led()) && !w.holding() && !w.stopping() && !time.Now().Before(w.until) {
			if w.backup.version != 0 {
				w.restore()
				continue
			}
			w.checkObjects()
			now := w.state()
			asUndisturbed := w.undisturbed != nil && now.equal(w.undisturbed.after[w.next])
			if asUndisturbed && w.waits() && time.Now().Before(w.undisturbed.settled[w.next]) {
				w.until = w.undisturbed.settled[w.next]
				continue
			}
			if still >= quiet || asUndisturbed {
				w.result.after[w.next], w.result.settled[w.next] = now, time.Now()
				return true
			}
			early = quiet
		}
		left := early - still
		if left <= 0 && !w.led() {
			left = quiet - still
		}
		if left <= 0 {
			left = quiet // only a hold keeps the run from being settled, and it ends before
		}
		for _, at := range []time.Time{w.collect, w.playAgain} {
			if !at.IsZero() {
				left = min(left, time.Until(at))
			}
		}
		if pause := time.Until(w.until); pause > 0 {
			left = min(left, pause)
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

// waits reports whether the operator acts by the clock. Each step then comes at the time that it had in the
// undisturbed run, unless a disturbance has cost more than Quiet: what is made at full hours is the same in both.
func (w *world) waits() bool {
	return (w.standing || !w.schedule.standby()) && slices.ContainsFunc(w.scenario.Steps, func(s Step) bool { return s.wait > 0 })
}

// busy reports whether something was written of late. Requests count only then: how long a run waits
// after that depends on what it compares.
func (w *world) busy() bool { return time.Since(w.moved) < earlyQuiet }

// step lets the user act.
func (w *world) step() {
	w.tell("user: %s", w.scenario.Steps[w.next].Name)
	if err := w.do(); err != nil {
		w.fails(fmt.Errorf("%s fails: %w", w.nextStep(), err))
	}
	w.done()
}

// nextStep is the name of the next step in what the test reads.
func (w *world) nextStep() string {
	return fmt.Sprintf("step %d (%s)", w.next+1, w.scenario.Steps[w.next].Name)
}

// do does the next step, which done then counts.
func (w *world) do() (err error) {
	w.playing.call(w.nextStep(), func() { err = w.scenario.Steps[w.next].Do(w.server) })
	return err
}

func (w *world) done() {
	step := w.scenario.Steps[w.next]
	w.next++
	w.learnNames()
	if step.wait > 0 {
		w.acted = w.acted.Add(step.wait)
		w.until = w.acted
		return
	}
	w.moved = time.Now()
	w.acted, w.until = w.moved, time.Time{}
}

// ready asks the next step's When.
func (w *world) ready(when func(*reflectortest.Server) bool) (ok bool) {
	w.playing.call("When of "+w.nextStep(), func() { ok = when(w.server) })
	return ok
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
	if step.When != nil && !w.ready(step.When) {
		w.tell("user: %s has to wait", step.Name)
		return false
	}
	if err := w.do(); err != nil {
		w.tell("user: %s has to wait: %v", step.Name, err)
		return false
	}
	w.tell("user: %s", step.Name)
	w.done()
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
		var collected bool
		w.playing.call("the garbage collector", func() { collected = w.server.CollectGarbage() })
		if collected {
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
			var again time.Duration
			var err error
			w.playing.call("a player", func() { again, err = player(w.server) })
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
