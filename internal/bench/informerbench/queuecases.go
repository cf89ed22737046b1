package informerbench

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
)

// Queue is the subcommand "queue".
var Queue = measure.Topic{Name: "queue", Summary: "from a commit to handlers, beside client-go's shared informer", Cases: func(run *measure.World) []measure.Case {
	return newWorld(run, scale{size: objects.Size{Pods: 50_000, Namespaces: 100, Nodes: 500}, busy: 1_000, rounds: 50, idle: 1_000, updates: 50_000}).queueCases()
}}

func (w *world) queueCases() []measure.Case {
	var cases []measure.Case
	const omits = "decoding, and the work of a handler: it counts"
	add := func(name string, handlers int, unit string, g gauge, goal measure.Goal, updates func(handlers int) [][]*corev1.Pod) {
		// The number of known pods keeps the first list shorter than the measurement.
		known := w.set.Pods[:max(w.busy, len(w.set.Pods)/handlers)]
		cases = append(cases, measure.Case{
			Name: "event/" + name, Unit: unit, Goal: goal, Omits: omits,
			Sides: between(g, handlers, func() [][]*corev1.Pod { return updates(handlers) },
				func(handlers int) (*subject, error) { return commitOurs(handlers, known) },
				func(handlers int) (*subject, error) { return commitPeer(handlers, known) }),
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
	add("10-handlers/allocations", 10, "allocs/event", func(calls int, f func()) float64 { return allocations(calls/10, f) }, measure.Goal{}, once)
	empty := [2]opener{
		func(handlers int) (*subject, error) { return commitOurs(handlers, nil) },
		func(handlers int) (*subject, error) { return commitPeer(handlers, nil) },
	}
	goroutines := func() float64 { return float64(runtime.NumGoroutine()) }
	return append(cases,
		measure.Case{Name: "idle/memory", Unit: "bytes/handler", Goal: measure.RatioAtMost(0.2), Rounds: 1, Omits: "events that wait for the handler", Sides: w.idleSides(memory, empty[0], empty[1])},
		measure.Case{Name: "idle/goroutines", Unit: "per handler", Goal: measure.AtMost(1), Rounds: 1, Omits: "goroutines that the handler starts", Sides: w.idleSides(goroutines, empty[0], empty[1])},
		measure.Case{Name: "stalled/heap", Unit: "MiB", Goal: measure.AtMost(0.1), Rounds: 1, Omits: "updates of many objects, each of which keeps one event", Sides: w.stalled},
	)
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
func (w *world) alone(int) [][]*corev1.Pod {
	var single [][]*corev1.Pod
	for range max(1, w.rounds/5) {
		for _, pod := range w.changes(w.busy) {
			single = append(single, []*corev1.Pod{pod})
		}
	}
	return single
}

// stalled measures the memory of many updates of one 4 KiB object while its only handler blocks.
func (w *world) stalled() (ours, peer measure.Round, err error) {
	kept := func(s *subject) (float64, error) {
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
	return with(func(n int) (*subject, error) { return commitOurs(n, w.set.Pods[:1]) }, 1, kept),
		with(func(n int) (*subject, error) { return commitPeer(n, w.set.Pods[:1]) }, 1, kept), nil
}
