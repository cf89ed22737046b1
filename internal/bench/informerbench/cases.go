package informerbench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
)

// Topic is the subcommand "informer".
var Topic = measure.Topic{Name: "informer", Summary: "from a watch to the handlers of an informer, beside client-go's shared informer", Cases: func(run *measure.World) (cases []measure.Case) {
	w := newWorld(run, scale{size: objects.Size{Pods: 5_000, Namespaces: 50, Nodes: 100}, busy: 1_000, rounds: 50, idle: 100, idleSoon: 2 * time.Second})
	watching := func(pods []*corev1.Pod) sides {
		from := func(open func(int, *server) (*subject, error)) opener {
			return func(handlers int) (*subject, error) { return open(handlers, newServer(pods, w.set.Version())) }
		}
		return sides{from(watchOurs), from(watchPeer)}
	}
	const omits = "sockets, decoding, and work of handlers"
	for _, handlers := range []int{1, 10, 100} {
		// As many other pods do not change, so that the cache is larger than the changing set.
		s, name := watching(w.set.Pods[:2*w.busy]), fmt.Sprintf("fan-out/%d/", handlers)
		cases = append(cases,
			measure.Case{Name: name + "cpu", Omits: omits, Unit: "ns/call", Sides: s.updated(cpu, handlers, w.hot)},
			measure.Case{Name: name + "wall", Omits: omits, Unit: "ns/call", Sides: s.updated(wall, handlers, w.hot)},
			measure.Case{Name: name + "allocations", Omits: omits, Unit: "allocs/call", Rounds: 1, Sides: s.updated(allocations, handlers, w.hot)},
		)
	}
	return append(cases, measure.Case{
		Name: "idle/memory", Omits: "what handlers keep after events", Unit: "bytes/handler", Rounds: 1, Sides: w.idlers(memory, watching(w.set.Pods)),
	})
}}

// Queue is the subcommand "queue".
var Queue = measure.Topic{Name: "queue", Summary: "from a commit to handlers, beside client-go's shared informer", Cases: func(run *measure.World) (cases []measure.Case) {
	w := newWorld(run, scale{size: objects.Size{Pods: 50_000, Namespaces: 100, Nodes: 500}, busy: 1_000, rounds: 50, idle: 1_000, updates: 50_000})
	committing := func(pods []*corev1.Pod) sides {
		return sides{
			func(handlers int) (*subject, error) { return commitOurs(handlers, pods) },
			func(handlers int) (*subject, error) { return commitPeer(handlers, pods) },
		}
	}
	add := func(name string, handlers int, unit string, g gauge, goal measure.Goal, updates updates) {
		// The number of known pods keeps the first list shorter than the measurement.
		s := committing(w.set.Pods[:max(w.busy, len(w.set.Pods)/handlers)])
		cases = append(cases, measure.Case{
			Name: "event/" + name, Unit: unit, Goal: goal, Omits: "decoding, and the work of a handler: it counts", Sides: s.updated(g, handlers, updates),
		})
	}
	for i, g := range []gauge{wall, cpu} {
		name := []string{"/wall", "/cpu"}[i]
		add("1-handler-random"+name, 1, "ns/call", g, measure.RatioAtMost(0.85), w.random)
		add("1-handler-hot"+name, 1, "ns/call", g, measure.RatioAtMost(1), w.hot)
		add("alone"+name, 1, "ns/call", g, measure.RatioAtMost(1), w.alone)
	}
	add("10-handlers/wall", 10, "ns/call", wall, measure.RatioAtMost(0.5), w.hot)
	add("10-handlers/cpu", 10, "ns/call", cpu, measure.RatioAtMost(0.9), w.hot)
	add("100-handlers/cpu", 100, "ns/call", cpu, measure.RatioAtMost(0.5), w.hot)
	add("1000-handlers/cpu", 1000, "ns/call", cpu, measure.RatioAtMost(0.6), w.hot)
	once := func(int) [][]*corev1.Pod { return [][]*corev1.Pod{w.changes(w.busy)} }
	add("1-handler/allocations", 1, "allocs/event", allocations, measure.AtMost(2), once)
	add("10-handlers/allocations", 10, "allocs/event", tenth, measure.Goal{}, once)
	goroutines := func() float64 { return float64(runtime.NumGoroutine()) }
	return append(cases,
		measure.Case{Name: "idle/memory", Unit: "bytes/handler", Goal: measure.RatioAtMost(0.2), Rounds: 1, Omits: "events that wait for the handler", Sides: w.idlers(memory, committing(nil))},
		measure.Case{Name: "idle/goroutines", Unit: "per handler", Goal: measure.AtMost(1), Rounds: 1, Omits: "goroutines that the handler starts", Sides: w.idlers(goroutines, committing(nil))},
		measure.Case{Name: "stalled/heap", Unit: "MiB", Goal: measure.AtMost(0.1), Rounds: 1, Omits: "updates of many objects, each of which keeps one event",
			Sides: committing(w.set.Pods[:1]).rounds(func(open opener) (float64, error) { return open.with(1, w.stalled) })},
	)
}}

// scale says how much is measured at once.
type scale struct {
	size    objects.Size
	busy    int // pods that change all the time
	rounds  int // in which each busy pod changes once, for one handler
	updates int // of one object, while its handler is stalled
	idle    int // handlers without events
	// idleSoon is the time after which a handler counts as idle: a collection keeps for a second what a
	// burst of events needed.
	idleSoon time.Duration
}

type world struct {
	scale
	set *objects.Set
}

func newWorld(run *measure.World, s scale) *world {
	if run.Size == measure.Tiny {
		s = scale{size: objects.Size{Pods: 50, Namespaces: 3, Nodes: 5}, busy: 10, rounds: 2, updates: 10, idle: 3}
	}
	return &world{scale: s, set: objects.NewSet(s.size)}
}

// updates returns changed pods, round by round.
type updates func(handlers int) [][]*corev1.Pod

// changes returns the first pods as a watch would report them after a change.
func (w *world) changes(n int) []*corev1.Pod {
	changed := make([]*corev1.Pod, n)
	for i, pod := range w.set.Pods[:n] {
		changed[i] = w.set.Changed(pod)
	}
	return changed
}

// random changes all pods once, in an order that is the same in each run of the program.
func (w *world) random(int) [][]*corev1.Pod {
	pods := w.changes(len(w.set.Pods))
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return [][]*corev1.Pod{pods}
}

// hot changes the same few pods again and again.
func (w *world) hot(handlers int) [][]*corev1.Pod {
	rounds := make([][]*corev1.Pod, max(1, w.rounds*10/(10+handlers)))
	for i := range rounds {
		rounds[i] = w.changes(w.busy)
	}
	return rounds
}

// alone changes the few pods as well, but each when the one before it has been handled.
func (w *world) alone(int) (single [][]*corev1.Pod) {
	for range max(1, w.rounds/5) {
		for _, pod := range w.changes(w.busy) {
			single = append(single, []*corev1.Pod{pod})
		}
	}
	return single
}

// opener opens an informer with so many handlers.
type opener func(handlers int) (*subject, error)

// with measures an informer of its own.
func (open opener) with(handlers int, round func(*subject) (float64, error)) (float64, error) {
	s, err := open(handlers)
	defer s.close()
	if err != nil {
		return 0, err
	}
	return round(s)
}

// sides are our informer and the peer's.
type sides [2]opener

func (s sides) rounds(round func(opener) (float64, error)) func() (ours, peer measure.Round, err error) {
	return func() (ours, peer measure.Round, err error) {
		return func() (float64, error) { return round(s[0]) }, func() (float64, error) { return round(s[1]) }, nil
	}
}

// gauge measures a function that makes a number of calls, as a figure for one of them.
type gauge struct {
	times   int // how often the function runs
	measure func(calls int, f func()) float64
}

var (
	wall        = gauge{1, func(calls int, f func()) float64 { return measure.PerOp(calls, time.Nanosecond, f) }}
	cpu         = gauge{1, func(calls int, f func()) float64 { return float64(measure.CPU(f)) / float64(calls) }}
	allocations = gauge{measure.AllocationRuns, func(calls int, f func()) float64 { return measure.Allocations(f) / float64(calls) }}
	// tenth counts the calls of ten handlers for an event as one.
	tenth = gauge{measure.AllocationRuns, func(calls int, f func()) float64 { return allocations.measure(calls/10, f) }}
)

// updated measures informers that get updates round by round. What is measured several times gets other
// updates each time, because an informer does not report an object that it holds already.
func (s sides) updated(g gauge, handlers int, updates updates) func() (ours, peer measure.Round, err error) {
	return s.rounds(func(open opener) (float64, error) {
		return open.with(handlers, func(s *subject) (figure float64, err error) {
			times := make([][][]*corev1.Pod, g.times)
			for i := range times {
				times[i] = updates(handlers)
			}
			calls := 0
			for _, pods := range times[0] {
				calls += len(pods) * handlers
			}
			figure = g.measure(calls, func() {
				for _, pods := range times[0] {
					if err == nil {
						err = s.update(pods)
					}
				}
				times = times[1:]
			})
			return figure, err
		})
	})
}

// idlers measures what one more handler needs: the difference between many and one.
func (w *world) idlers(figure func() float64, s sides) func() (ours, peer measure.Round, err error) {
	return s.rounds(func(open opener) (float64, error) {
		look := func(*subject) (float64, error) {
			time.Sleep(w.idleSoon)
			return figure(), nil
		}
		few, err := open.with(1, look)
		if err != nil {
			return 0, err
		}
		many, err := open.with(1+w.idle, look)
		return (many - few) / float64(w.idle), err
	})
}

// memory returns the bytes of the live heap and of stacks.
func memory() float64 {
	heap := measure.LiveHeap() // first: a collection shrinks stacks
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(heap) + float64(stats.StackInuse)
}

// stalled measures the memory of many updates of one 4 KiB object while its only handler blocks.
func (w *world) stalled(s *subject) (float64, error) {
	defer s.gate.Shut()()
	before := measure.LiveHeap()
	s.Expect(w.updates)
	for i := range w.updates {
		pod := *w.set.Pods[0]
		pod.ResourceVersion = strconv.Itoa(i + 2)
		pod.Annotations = map[string]string{"payload": strings.Repeat("x", 4<<10)}
		if err := s.put([]*corev1.Pod{&pod}); err != nil {
			return 0, err
		}
	}
	return (float64(measure.LiveHeap()) - float64(before)) / (1 << 20), nil
}
