package shard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
)

var (
	schedules = flag.Int("schedules", 20, "how many schedules the simulation goes through: 5000 take some ten minutes")
	firstSeed = flag.Uint64("seed", 1, "of the first schedule")
)

// What the clocks of the simulation may differ by, and how long work takes to end when it
// has to: with the default times that is what there is room for.
const (
	drift = 0.05
	stops = 3500 * time.Millisecond
)

// simulation is one schedule.
type simulation struct {
	*testing.T
	server *reflectortest.Server
	random *rand.Rand
	group  Group
	seed   uint64

	// mu protects the fields below it.
	mu      sync.Mutex
	all     []*actor
	active  map[int]map[*action]bool // by shard
	clashes []string
	takes   int
	notes   []string
}

// actor is a member in the simulation.
type actor struct {
	*simulation
	*Member
	*host
	name   string
	number int
	cancel context.CancelFunc
	ended  chan struct{}
	err    error

	// Guarded by simulation.mu.

	crashed bool
	leaving bool
	pauses  int
}

// action is one call of a RunFunc.
type action struct {
	of     *actor
	ctx    context.Context
	shard  Shard
	pauses int // that there had been when it began
}

func (s *simulation) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf("%8.3f ", time.Since(start2000).Seconds())+fmt.Sprintf(format, args...))
}

// start2000 is when the clock of each bubble begins.
var start2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// acts reports whether something may be done now for a shard: the work has not returned
// and, where the process was paused, the shard is held for certain.
func (a *action) actsLocked() bool {
	if a.of.crashed || a.of.host.isPaused() {
		return false
	}
	return a.pauses == a.of.pauses || CheckHeld(a.ctx) == nil
}

func (h *host) isPaused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paused
}

// act notes that something is done for a shard.
func (s *simulation) act(a *action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.actsLocked() {
		return
	}
	for other := range s.active[a.shard.Index] {
		if other != a && other.actsLocked() {
			s.clashes = append(s.clashes, fmt.Sprintf("%v: %s and %s both work %s", time.Since(start2000), a.of.name, other.of.name, a.shard))
			s.note("CLASH %s %s %s", a.shard, a.of.name, other.of.name)
		}
	}
}

// hold is the work of a shard: it takes its time to end.
func (a *actor) hold(ctx context.Context, shard Shard) error {
	s := a.simulation
	s.mu.Lock()
	one := &action{of: a, ctx: ctx, shard: shard, pauses: a.pauses}
	if a.host.isPaused() {
		one.pauses = -1 // it begins when the machine wakes up
	}
	if s.active[shard.Index] == nil {
		s.active[shard.Index] = map[*action]bool{}
	}
	s.active[shard.Index][one] = true
	s.takes++
	// Not by the random numbers of the schedule, which would depend on who comes first.
	random := rand.New(rand.NewPCG(s.seed, uint64(a.number)<<40|uint64(shard.Index)<<32|uint64(shard.Generation)))
	drain := time.Duration(random.IntN(6000)) * time.Millisecond
	stop := min(stops, time.Duration(random.IntN(2*int(stops))))
	s.note("%s begins %s term %d", a.name, shard, shard.Generation)
	s.mu.Unlock()
	s.act(one)
	defer func() {
		s.act(one) // it worked until now
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.active[shard.Index], one)
		s.note("%s ends %s", a.name, shard)
	}()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), controller.ErrStopNow) {
		select {
		case <-time.After(drain):
			return nil
		case <-controller.HardStopped(ctx):
		}
	}
	<-time.After(stop)
	return nil
}

// join starts a member.
func (s *simulation) join() *actor {
	s.mu.Lock()
	name := fmt.Sprintf("m%d", len(s.all))
	a := &actor{
		simulation: s, name: name, number: len(s.all), ended: make(chan struct{}),
		host: newHost(rand.New(rand.NewPCG(s.seed, uint64(len(s.all))+100)), 1+drift*(2*s.random.Float64()-1)),
	}
	s.all = append(s.all, a)
	s.note("%s joins", name)
	s.mu.Unlock()
	config := s.server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { a.host.next = next; return a.host })
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(s, err)
	lives := 0
	a.Member, err = New(clientset.CoordinationV1(), s.group, name, a.hold, optionFunc(func(o *options) { o.drain = 4 * time.Second }), optionFunc(func(o *options) {
		o.clock = a.host
		o.suffix = func() string { lives++; return fmt.Sprintf("%010d", lives) }
	}))
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	a.cancel = cancel
	go func() {
		defer close(a.ended)
		a.err = a.Member.Run(ctx)
	}()
	return a
}

func (a *actor) is(note string, change func()) {
	a.simulation.mu.Lock()
	defer a.simulation.mu.Unlock()
	a.simulation.note("%s %s", a.name, note)
	a.host.set(change)
}

func (a *actor) pause()  { a.is("pauses", func() { a.host.paused = true; a.pauses++ }) }
func (a *actor) cutOff() { a.is("is cut off", func() { a.host.cut = true }) }
func (a *actor) storm()  { a.is("has a bad network", func() { a.host.rough = true }) }
func (a *actor) fade()   { a.is("fades away", func() { a.host.fading = true }) }
func (a *actor) heal() {
	a.is("is well", func() {
		a.host.paused, a.host.cut, a.host.rough, a.host.fading = false, false, false, false
		a.host.healed++
	})
}
func (a *actor) leave() { a.is("leaves", func() { a.leaving = true }); a.cancel() }
func (a *actor) crash() {
	a.is("crashes", func() { a.crashed, a.host.paused, a.host.cut = true, true, true; a.pauses++ })
}

// there returns the members that have neither left nor crashed.
func (s *simulation) there() []*actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	var there []*actor
	for _, a := range s.all {
		if !a.crashed && !a.leaving {
			there = append(there, a)
		}
	}
	return there
}

func (s *simulation) intn(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// happen has one thing go wrong, or right.
func (s *simulation) happen() {
	there := s.there()
	if len(there) == 0 || (len(there) < 5 && s.intn(4) == 0) {
		s.join()
		return
	}
	a := there[s.intn(len(there))]
	switch s.intn(9) {
	case 0:
		a.leave()
	case 1:
		a.crash()
	case 2, 3:
		a.pause()
	case 4:
		a.cutOff()
	case 5:
		a.storm()
	case 6:
		a.fade()
	default:
		a.heal()
	}
}

// run goes through a schedule.
func (s *simulation) run() {
	defer s.over()
	for range 2 + s.intn(3) {
		s.join()
	}
	for range 12 {
		pass(time.Duration(s.intn(12000)) * time.Millisecond)
		s.happen()
	}
	for _, a := range s.all {
		if !a.crashed {
			a.heal() // also who leaves
		}
	}
	if len(s.there()) == 0 {
		s.join()
	}
	pass(100 * time.Second)
	s.settled("after all was well again")
	before := s.taken()
	pass(20 * time.Second)
	s.equal(before, s.taken(), "shards that are taken although nothing happens")
	newest := s.join()
	pass(10 * time.Second)
	s.settled("after one more came")
	s.equal(before+s.load()[newest.name], s.taken(), "takes after one more came")
}

func (s *simulation) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takes
}

func (s *simulation) load() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	load := map[string]int{}
	for _, active := range s.active {
		for one := range active {
			if !one.of.crashed {
				load[one.of.name]++
			}
		}
	}
	return load
}

// settled checks that all shards are held, and as many by each as by another.
func (s *simulation) settled(when string) {
	load, sum := s.load(), 0
	there := s.there()
	for _, a := range there {
		n := load[a.name]
		sum += n
		if n < s.group.Shards/len(there) || n > (s.group.Shards+len(there)-1)/len(there) {
			s.fail(fmt.Sprintf("%s: %s has %d of %d shards, of %d members; %v", when, a.name, n, s.group.Shards, len(there), a.Ready()))
		}
	}
	s.equal(s.group.Shards, sum, "shards that are held "+when)
}

func (s *simulation) equal(want, got int, what string) {
	if want != got {
		s.fail(fmt.Sprintf("%s: %d, not %d", what, got, want))
	}
}

func (s *simulation) fail(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clashes = append(s.clashes, text)
	s.note("%s", text)
}

// over ends everybody. Who has crashed does so with nobody to talk to.
func (s *simulation) over() {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	for _, a := range all {
		a.cancel()
	}
	for _, a := range all {
		if a.crashed {
			a.host.set(func() { a.host.paused = false })
		}
		<-a.ended
		close(a.host.end)
		a.host.late.Wait()
		if a.err != nil {
			s.fail(fmt.Sprintf("%s: %v", a.name, a.err))
		}
	}
}

func simulate(t *testing.T, seed uint64) (failures, notes []string) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{
			T: t, server: reflectortest.Start(t), seed: seed, random: rand.New(rand.NewPCG(seed, 0)), active: map[int]map[*action]bool{},
		}
		s.group = Group{Namespace: "default", Name: "foos", Shards: 1 + s.random.IntN(12)}
		s.run()
		failures, notes = s.clashes, s.notes
	})
	return failures, notes
}

func TestWhateverHappensNoShardIsWorkedTwice(t *testing.T) {
	failed := 0
	for n := range uint64(*schedules) {
		failures, notes := simulate(t, *firstSeed+n)
		if len(failures) == 0 {
			continue
		}
		if failed++; failed == 1 {
			for _, note := range notes {
				t.Log(note)
			}
		}
		t.Errorf("schedule %d (go test -run %s -schedules 1 -seed %d): %q", *firstSeed+n, t.Name(), *firstSeed+n, failures[:min(len(failures), 5)])
		if failed >= 5 {
			return
		}
	}
}
