package queuebench

import (
	"io"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out.
// It reports errors in the arguments to log.
func Run(args []string, out, log io.Writer) error {
	return measure.Command("queue", func() []measure.Case { return newWorld(full).cases() }, args, out, log)
}

// timing is one way to measure a function.
type timing struct {
	name string
	of   func(func()) time.Duration
}

var wall, cpu = timing{"wall", measure.Elapsed}, timing{"cpu", measure.CPU}

func (w *world) cases() []measure.Case {
	var cases []measure.Case
	const omits = "decoding, and the work of a handler: it counts"
	add := func(name string, handlers int, t timing, goal measure.Goal, updates func(handlers int) [][]*corev1.Pod) {
		cases = append(cases, measure.Case{
			Name: "event/" + name + "/" + t.name, Unit: "ns/call", Goal: goal, Omits: omits, Sides: w.sides(handlers, w.timed(t, handlers, updates)),
		})
	}
	for _, t := range []timing{wall, cpu} {
		add("1-handler-random", 1, t, measure.RatioAtMost(0.85), w.random)
		add("1-handler-hot", 1, t, measure.RatioAtMost(1), w.hot)
		add("alone", 1, t, measure.RatioAtMost(1), w.alone)
	}
	add("10-handlers", 10, wall, measure.RatioAtMost(0.5), w.hot)
	add("10-handlers", 10, cpu, measure.RatioAtMost(0.9), w.hot)
	add("100-handlers", 100, wall, measure.Goal{}, w.hot)
	add("100-handlers", 100, cpu, measure.RatioAtMost(0.5), w.hot)
	add("1000-handlers", 1000, wall, measure.Goal{}, w.hot)
	add("1000-handlers", 1000, cpu, measure.RatioAtMost(0.6), w.hot)
	return append(cases,
		measure.Case{Name: "event/1-handler/allocations", Unit: "allocs/event", Goal: measure.AtMost(2), Rounds: 1, Omits: omits, Sides: w.sides(1, w.allocations)},
		measure.Case{Name: "event/10-handlers/allocations", Unit: "allocs/event", Rounds: 1, Omits: omits, Sides: w.sides(10, w.allocations)},
		measure.Case{Name: "idle/memory", Unit: "bytes/handler", Goal: measure.RatioAtMost(0.2), Rounds: 1, Omits: "events that wait for the handler", Sides: w.idle(func(f footprint) float64 { return f.memory })},
		measure.Case{Name: "idle/goroutines", Unit: "per handler", Goal: measure.AtMost(1), Rounds: 1, Omits: "goroutines that the handler starts", Sides: w.idle(func(f footprint) float64 { return f.goroutines })},
		measure.Case{Name: "stalled/heap", Unit: "MiB", Goal: measure.AtMost(0.1), Rounds: 1, Omits: "updates of many objects, each of which keeps one event", Sides: w.stalled},
	)
}

// timed measures what one call of one handler takes.
func (w *world) timed(t timing, handlers int, updates func(handlers int) [][]*corev1.Pod) func(subject) (float64, error) {
	return func(s subject) (float64, error) {
		rounds := updates(handlers)
		var err error
		calls := 0
		took := t.of(func() {
			for _, pods := range rounds {
				if err = update(s, pods); err != nil {
					return
				}
				calls += len(pods) * handlers
			}
		})
		return float64(took) / float64(max(calls, 1)), err
	}
}

// random changes all pods once, in random order.
func (w *world) random(int) [][]*corev1.Pod {
	pods := w.changes(len(w.set.Pods))
	w.shuffle(pods)
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

func (w *world) allocations(s subject) (float64, error) {
	changes := w.changes(w.busy)
	var err error
	count := measure.Allocations(func() { err = update(s, changes) })
	return count / float64(len(changes)), err
}
