package simulate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/deepcopy"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

var (
	flagLine   = flag.String("simulate", "", "play only this line of a finding, and print its trace")
	flagBudget = flag.Duration("simulate.budget", 0, "after the single disturbances, play random pairs of them for this long")
	flagSeed   = flag.Uint64("simulate.seed", 0, "the seed of the random pairs, and of the part that Scenario.Most plays")
	flagAt     = regexp.MustCompile("")
)

func init() {
	flag.TextVar(flagAt, "simulate.at", regexp.MustCompile(""), "play the schedules whose line matches this regular expression, and all of them whatever Scenario.Most says")
}

// A Scenario is an operator, and what happens in its cluster.
type Scenario struct {
	// Server makes the operator's kinds known to the server.
	Server []reflectortest.Option
	// Operator runs the operator until its context ends, and sets up everything of it: it is called once
	// for each process. Each call must begin without what an earlier one left in package variables, and if the
	// operator holds a Lease, two calls run at once, each with an identity of its own. Under
	// controller-runtime, set Controller.SkipNameValidation and Metrics.BindAddress "0".
	Operator func(ctx context.Context, config *rest.Config) error
	// Steps are what the user does, each after the operator has settled.
	Steps []Step
	// Players are the controllers around the operator. The garbage collector always plays.
	Players []Player
	// Invariant is checked after each write of the operator, each step, and each turn of the players, one check
	// at a time in a run. An invariant that remembers earlier states must be made for each run, so let
	// Outside set it. It has to forget them when s.ResourceVersion is lower than at the last check, because a
	// schedule has then restored the server from a backup.
	Invariant func(s *reflectortest.Server) error
	// Outside makes fakes of the systems outside of the cluster for one run, and gives them to what uses them.
	// Runs that play at once call it from several goroutines, unless Serial is set. It sets Operator of run,
	// which is the scenario of that run alone, and if need be its Steps, Players, Invariant or Server. It
	// returns a function that returns the state of the fakes as lines, which are compared like objects, or nil
	// if there are none.
	Outside func(run *Scenario) (lines func() []string)
	// Serial plays runs one after another, for an operator that keeps package variables, and empties them where
	// it begins. Without it, GOMAXPROCS runs play at once.
	Serial bool
	// Normalize removes from an object the fields that may differ between two correct runs. An object that may
	// be missing at the end of a correct run is a finding unless clear(object) empties it: an empty object is
	// not compared. It tells the object by its kind and metadata.
	Normalize func(object map[string]any)
	// OldServers lets the server refuse watch-lists, as Kubernetes 1.33 does, and adds restarts behind a
	// write: a list at version "0" then comes from an API server that lags. A process that takes over may then
	// be behind several steps.
	OldServers bool
	// Quiet is how long nothing is written by a settled operator. The default of 20 minutes is longer than
	// the longest back-off of controller-runtime. A shorter one gives false findings where a write fails for
	// ten minutes, unless the operator backs off for less than Quiet.
	Quiet time.Duration
	// Most bounds the schedules of one exploration, so that a test of an operator with many writes stays
	// short. 0 plays all. It is the same part each time, unless -simulate.seed asks for another one: n seeds in
	// a row play all. The first seeds play crashes, lost answers and failures, and as many writes as possible.
	// A bug that only other schedules show passes such a test, so play all before a release, or with
	// -simulate.at all of some writes.
	Most int

	traced bool
}

// A Step is one act of the user. A run fails if Do returns an error, unless a schedule lets the user act
// early: then the user waits after all.
type Step struct {
	Name string
	// Do must not wait, neither for the operator nor for time: while it runs, the operator's requests stay
	// where they are. Wait with When, or with a step of Wait.
	Do func(s *reflectortest.Server) error
	// When, if not nil, does the step as soon as it returns true, without waiting until the operator has
	// settled. A name that has to be free again is an example. If the operator settles before, the run fails.
	When func(s *reflectortest.Server) bool

	wait time.Duration // of Wait
}

// Create creates a copy of an object.
func Create(object metav1.Object) Step {
	return Step{Name: "create " + describe(object), Do: func(s *reflectortest.Server) error {
		return s.Create(deepcopy.Of(object))
	}}
}

// Change changes the stored object that has the name of object, its status included.
func Change[T metav1.Object](object T, change func(T)) Step {
	return Step{Name: "change " + describe(object), Do: func(s *reflectortest.Server) error {
		stored := deepcopy.Of(object)
		if err := s.Get(stored); err != nil {
			return err
		}
		change(stored)
		return s.Update(stored)
	}}
}

// Delete deletes the object that has the name of object, as kubectl delete does. A pod on a node is only
// marked: without the player Pods or another one, nothing ends it. policy is at most one, that of kubectl
// delete --cascade. With Foreground, the object stays in deletion until the garbage collector has deleted
// the objects whose owner references to it have blockOwnerDeletion, as those of metav1.NewControllerRef
// have, so the operator's function may be called for it meanwhile.
func Delete(object metav1.Object, policy ...metav1.DeletionPropagation) Step {
	name := "delete " + describe(object)
	if len(policy) > 0 {
		name += " (" + string(policy[0]) + ")"
	}
	return Step{Name: name, Do: func(s *reflectortest.Server) error {
		if isPod(object) && len(policy) <= 1 {
			return deletePod(s, object, append(slices.Clip(policy), metav1.DeletePropagationBackground)[0])
		}
		return s.Delete(object, policy...)
	}}
}

// Wait lets time pass until d after the step before it, while the operator goes on, and then until the operator has
// settled. It is for operators that act by the clock: without it, a run goes on once nothing was written for
// Quiet. Let it end when such an operator has been quiet for a while.
func Wait(d time.Duration) Step {
	return Step{Name: "wait " + shortDuration(d), Do: func(*reflectortest.Server) error { return nil }, wait: d}
}

func describe(object metav1.Object) string {
	name := object.GetName()
	if name == "" {
		name = object.GetGenerateName() + "*"
	}
	if object.GetNamespace() != "" {
		name = object.GetNamespace() + "/" + name
	}
	kind := reflect.TypeOf(object).String()
	if o, ok := object.(apiruntime.Object); ok && o.GetObjectKind().GroupVersionKind().Kind != "" {
		kind = o.GetObjectKind().GroupVersionKind().Kind
	}
	return kind[strings.LastIndex(kind, ".")+1:] + " " + name
}

// A Player is a controller of the cluster that is not under test, such as Deployments. It is called
// after each change of the server, and again when the time that it returned has passed, if that is
// not 0.
type Player func(s *reflectortest.Server) (again time.Duration, err error)

// A Finding is what an operator gets wrong under a schedule.
type Finding struct {
	// Line plays the schedule again. It is empty for a failure of the undisturbed run.
	Line string
	// Failures say what is wrong.
	Failures []string
	// Others are the lines of other schedules that end in the same way.
	Others []string
	// Unstable means that the line did not end in this way each time that it was played again.
	Unstable bool

	group string
}

// Explore plays the scenario undisturbed, and then with each disturbance. It reports each finding as
// an error of t, with the line that plays it again:
//
//	go test -run '^TestOperator$' -simulate "crash after update sites/status default/a#1"
//
// Further flags: -simulate.budget=60s plays random pairs of disturbances for that long. -simulate.seed=1
// draws other pairs, and plays another part where Scenario.Most is set. -simulate.at='create secrets' plays the
// schedules whose line matches the regular expression, and no others, whatever Most says. With -v, each line is printed before
// it is played.
func Explore(t *testing.T, s Scenario) {
	t.Helper()
	if *flagLine != "" {
		trace, failures := Play(t, s, *flagLine)
		t.Logf("what happened:\n%s", strings.Join(trace, "\n"))
		for _, failure := range failures {
			t.Errorf("%s", failure)
		}
		return
	}
	for _, f := range Find(t, s) {
		t.Error(f.message(t.Name()))
	}
}

func (f Finding) message(test string) string {
	var b strings.Builder
	if f.Line == "" {
		b.WriteString("without any disturbance:\n")
	}
	for _, failure := range f.Failures {
		fmt.Fprintf(&b, "%s\n", failure)
	}
	if f.Line != "" {
		fmt.Fprintf(&b, "play it again: go test -run '^%s$' -simulate %q\n", strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^"), f.Line)
	}
	if f.Unstable {
		b.WriteString("unstable: that line does not end like this each time, because the operator depends on chance or on the order of its goroutines\n")
	}
	if n := len(f.Others); n > 0 {
		fmt.Fprintf(&b, "%d more schedules end like this, for example %q\n", n, f.Others[0])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// replays is how often a finding must end in the same way to count as stable.
const replays = 3

// Find is Explore for a test that expects findings: it returns them, one for each way in which the
// operator fails, the shortest line first.
func Find(t *testing.T, s Scenario) []Finding {
	t.Helper()
	all, err := s.find(t)
	if err != nil {
		for _, f := range all {
			t.Error(f.message(t.Name()))
		}
		t.Fatal(err)
	}
	return all
}

// find returns what it has found, also beside an error.
func (s *Scenario) find(t *testing.T) ([]Finding, error) {
	t.Helper()
	w := watch(t.Name())
	defer w.stop()
	undisturbed, err := s.begin(t, w)
	if err != nil {
		return nil, err
	}
	found := &findings{groups: map[string]*Finding{}}
	if len(undisturbed.failures) > 0 {
		found.add(nil, undisturbed.failures)
	}
	var mu sync.Mutex
	var missed []schedule // guarded by mu
	check := func(line schedule) []failure {
		if testing.Verbose() {
			t.Logf("simulate: playing %q", line)
		}
		r := s.run(t, w, undisturbed, line)
		if len(r.missed) == len(line) {
			mu.Lock()
			missed = append(missed, line)
			mu.Unlock()
		}
		return r.compare(undisturbed)
	}
	every := undisturbed.scenario.disturbances(undisturbed)
	single, part, parts := thin(every, s.Most, *flagSeed)
	how := fmt.Sprintf("%d schedules played", len(single))
	if at := flagAt.String(); at != "" {
		single = matching(every, flagAt)
		how = fmt.Sprintf("%d of %d schedules played, all that match -simulate.at=%q", len(single), len(every), at)
		if len(single) == 0 {
			return nil, fmt.Errorf("simulate: no schedule matches -simulate.at=%q; the writes of the undisturbed run are %.500q", at, undisturbed.writes)
		}
	} else if parts > 1 {
		how = fmt.Sprintf("%d of %d schedules played, part %d of %d by -simulate.seed=%d", len(single), len(every), part, parts, *flagSeed)
	}
	for i, failures := range s.all(single, check) {
		found.add(single[i], failures)
	}
	var differs error
	if n := len(missed); n > 0 {
		how += fmt.Sprintf(", %d never happened", n)
		if n > max(len(single)/10, 1) {
			differs = fmt.Errorf("simulate: %d of %d schedules never happened, for example %q, because the operator's writes are not the same in each run: "+
				"play that line with -simulate, and compare its writes with those of the undisturbed run, %.500q; it often helps to sort lists and to name objects after their parent", n, len(single), missed[0].String(), undisturbed.writes)
		}
	}
	if *flagBudget > 0 && len(single) > 1 && differs == nil {
		random := rand.New(rand.NewPCG(*flagSeed, 0))
		for end := time.Now().Add(*flagBudget); time.Now().Before(end); {
			pairs := make([]schedule, 8*runtime.GOMAXPROCS(0))
			for i := range pairs {
				pairs[i] = append(slices.Clone(single[random.IntN(len(single))]), single[random.IntN(len(single))]...)
			}
			for i, failures := range s.all(pairs, check) {
				found.add(pairs[i], failures)
			}
		}
	}
	t.Logf("simulate: %s, findings: %d", how, len(found.keys))
	all := found.sorted()
	for i := range all {
		f := &all[i]
		if f.Line == "" {
			continue
		}
		line, err := parse(f.Line)
		if err != nil {
			return all, fmt.Errorf("a finding's own line: %w", err)
		}
		line = minimize(line, func(shorter schedule) bool { return groupOf(check(shorter)) == f.group })
		f.Line = line.String()
		for range replays {
			if groupOf(check(line)) != f.group {
				f.Unstable = true
			}
		}
	}
	return all, differs
}

// begin plays the undisturbed run.
func (s *Scenario) begin(t *testing.T, dog *watchdog) (*result, error) {
	t.Helper()
	undisturbed := s.run(t, dog, nil, nil)
	switch {
	case undisturbed.fatal != nil:
		return nil, fmt.Errorf("simulate: without any disturbance, so there is nothing to compare with: %w", undisturbed.fatal)
	case len(undisturbed.writes) == 0:
		return nil, errors.New("simulate: the operator writes nothing, so there is nowhere to disturb it: check its set-up, and that a step concerns it")
	}
	again := s.run(t, dog, undisturbed, nil)
	if len(again.failures) > 0 && len(undisturbed.failures) == 0 {
		return nil, fmt.Errorf("simulate: a second run without any disturbance fails, although the first one did not: %s: does the operator leave something in package variables?", again.failures[0].text)
	}
	for n := 0; n <= len(undisturbed.scenario.Steps); n++ {
		if _, text := undisturbed.after[n].difference(again.after[n]); text != "" {
			return nil, fmt.Errorf("simulate: two runs without any disturbance differ %s: %s: let Scenario.Normalize remove what depends on chance", undisturbed.scenario.moment(n), text)
		}
	}
	return undisturbed, nil
}

// Play plays one line, or the undisturbed run if it is empty, and returns what happened, in order, and what is wrong.
func Play(t *testing.T, s Scenario, line string) (trace, failures []string) {
	t.Helper()
	trace, failures, err := s.play(t, line)
	if err != nil {
		t.Fatal(err)
	}
	return trace, failures
}

func (s *Scenario) play(t *testing.T, line string) (trace, failures []string, err error) {
	t.Helper()
	parsed, err := parse(line)
	if err != nil {
		return nil, nil, err
	}
	w := watch(t.Name())
	defer w.stop()
	undisturbed, err := s.begin(t, w)
	if err != nil {
		return nil, nil, err
	}
	s.traced = true
	r := s.run(t, w, undisturbed, parsed)
	for _, f := range r.compare(undisturbed) {
		failures = append(failures, f.text)
	}
	for _, c := range r.missed {
		failures = append(failures, fmt.Sprintf("the line's clause %q never happened; the writes of the undisturbed run are %q", c, undisturbed.writes))
	}
	return r.trace, failures, nil
}

// matching returns the schedules whose line matches.
func matching(all []schedule, at *regexp.Regexp) []schedule {
	return slices.DeleteFunc(slices.Clone(all), func(s schedule) bool { return !at.MatchString(s.String()) })
}

// thin returns at most so many of the schedules, and which part of them that is. As many seeds in a row as there
// are parts choose all schedules, in the order of spread.
func thin(all []schedule, most int, seed uint64) (kept []schedule, part, parts int) {
	if most <= 0 || len(all) <= most {
		return all, 1, 1
	}
	parts = (len(all) + most - 1) / most
	part = int(seed % uint64(parts))
	return spread(all)[part*most : min((part+1)*most, len(all))], part + 1, parts
}

// spread orders schedules for an exploration that plays only the first ones: by rank, and within a rank in rounds
// that have each write once. Two thirds of the schedules of an operator with many kinds hold or expire one that
// has nothing to do with the write, so an even choice from all would leave out most crashes.
func spread(all []schedule) []schedule {
	type place struct {
		write string
		rank  int
	}
	all = slices.Clone(all)
	rand.New(rand.NewPCG(0, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // the same each time
	var rounds [3][][]schedule                                                                        // by rank
	count := map[place]int{}
	for _, s := range all {
		at := place{s[0].at, s.rank()}
		n, of := count[at], &rounds[at.rank]
		if count[at]++; n == len(*of) {
			*of = append(*of, nil)
		}
		(*of)[n] = append((*of)[n], s)
	}
	return slices.Concat(slices.Concat(rounds[:]...)...)
}

// minimize leaves out the clauses that a finding does not need.
func minimize(line schedule, same func(schedule) bool) schedule {
	for i := 0; i < len(line) && len(line) > 1; {
		if shorter := slices.Delete(slices.Clone(line), i, i+1); same(shorter) {
			line = shorter
		} else {
			i++
		}
	}
	return line
}

// findings groups schedules by what is wrong after them.
type findings struct {
	groups map[string]*Finding
	keys   []string
}

func groupOf(failures []failure) string {
	if len(failures) == 0 {
		return ""
	}
	return failures[0].key
}

func (f *findings) add(line schedule, failures []failure) {
	key := groupOf(failures)
	if key == "" {
		return
	}
	text := line.String()
	var texts []string
	for _, one := range failures {
		texts = append(texts, one.text)
	}
	group := f.groups[key]
	switch {
	case group == nil:
		f.groups[key] = &Finding{Line: text, Failures: texts, group: key}
		f.keys = append(f.keys, key)
	case len(text) < len(group.Line):
		group.Others = append(group.Others, group.Line)
		group.Line, group.Failures = text, texts
	default:
		group.Others = append(group.Others, text)
	}
}

func (f *findings) sorted() []Finding {
	var all []Finding
	for _, key := range f.keys {
		all = append(all, *f.groups[key])
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return len(a.Line) - len(b.Line) })
	return all
}

// alone lets a run play without any beside it, if a panic may be another run's.
var alone sync.RWMutex

// run plays one schedule.
func (s *Scenario) run(t *testing.T, dog *watchdog, undisturbed *result, line schedule) *result {
	t.Helper()
	play := func(lock sync.Locker) *result {
		lock.Lock()
		defer lock.Unlock()
		return s.bubble(t, dog, undisturbed, line)
	}
	r := play(alone.RLocker())
	if r.doubtful {
		r = play(&alone)
	}
	return r
}

// bubble plays one schedule in a bubble of its own.
func (s *Scenario) bubble(t *testing.T, dog *watchdog, undisturbed *result, line schedule) (r *result) {
	t.Helper()
	p := dog.begin(line)
	defer p.end()
	end := func() {}
	defer func() { end() }() // after the server's last goroutine
	defer func() {
		// The bubble panics if a goroutine of the operator is left behind. In production the process would
		// have ended, so that is no finding, and the result is known by then.
		e := recover()
		if call := p.code.Load(); e != nil && r == nil && call != nil {
			panic(fmt.Sprintf("%v: %s", e, standstill(*call)))
		}
		if e != nil && r == nil {
			panic(e)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s, p, undisturbed, slices.Clone(line))
		end = handlers.use(w)
		r = w.run(t.Context())
	})
	return r
}

// all plays schedules, and returns their failures in the order of the schedules.
func (s *Scenario) all(lines []schedule, check func(schedule) []failure) [][]failure {
	failures := make([][]failure, len(lines))
	workers := runtime.GOMAXPROCS(0)
	if s.Serial {
		workers = 1
	}
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(workers, len(lines)) {
		running.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(lines)); n = next.Add(1) - 1 {
				failures[n] = []failure{{"not played", "this schedule was not played to its end: see what the test says before"}}
				failures[n] = check(lines[n])
			}
		})
	}
	running.Wait()
	return failures
}
