package queuebench

import (
	"io"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out. What is wrong with the arguments goes to log.
func Run(args []string, out, log io.Writer) error {
	return measure.Command("queue", func() []measure.Case { return newWorld(full).cases() }, args, out, log)
}

const manyHandlers = 10

func (w *world) cases() []measure.Case {
	return measure.Omitting("decoding, the reflector, and work and errors of handlers",
		measure.Case{Name: "event/1-handler", Unit: "ns", Goal: measure.AtMost(700), Sides: w.sides(1, w.handling)},
		measure.Case{Name: "event/1-handler-all-pods", Unit: "ns", Sides: w.sides(1, w.handlingAll)},
		measure.Case{Name: "event/1-handler-allocations", Unit: "allocs/event", Goal: measure.AtMost(2), Rounds: 1, Sides: w.sides(1, w.allocations)},
		measure.Case{Name: "event/10-handlers", Unit: "ns", Goal: measure.RatioAtMost(0.5), Sides: w.sides(manyHandlers, w.handling)},
		measure.Case{Name: "event/10-handlers-allocations", Unit: "allocs/event", Rounds: 1, Sides: w.sides(manyHandlers, w.allocations)},
		measure.Case{Name: "idle/heap", Omits: "what handlers keep after events", Unit: "bytes/handler", Goal: measure.AtMost(2048), Rounds: 1, Sides: w.idle(func(before, after footprint) float64 { return after.heap - before.heap })},
		measure.Case{Name: "idle/goroutines", Omits: "goroutines of handlers with events", Unit: "per handler", Goal: measure.AtMost(1), Rounds: 1, Sides: w.idle(func(before, after footprint) float64 { return after.goroutines - before.goroutines })},
		measure.Case{Name: "stalled/heap", Omits: "more than one object, and more than one stalled handler", Unit: "MiB", Goal: measure.AtMost(1), Rounds: 1, Sides: w.stalled},
	)
}

// handling measures the time that all handlers together need for an update. The same few pods change again and again, as they do in a cluster, so that
// what is measured is work, and not how long memory takes.
func (w *world) handling(s subject) (float64, error) {
	rounds := make([][]*corev1.Pod, w.rounds)
	for i := range rounds {
		rounds[i] = w.changes(w.busy)
	}
	var err error
	figure := measure.PerOp(len(rounds)*w.busy, time.Nanosecond, func() {
		for _, changes := range rounds {
			if err = update(s, changes); err != nil {
				return
			}
		}
	})
	return figure, err
}

// handlingAll is handling with all pods changing once, which memory is slower for than the handlers are.
func (w *world) handlingAll(s subject) (float64, error) {
	changes := w.changes(len(w.set.Pods))
	var err error
	figure := measure.PerOp(len(changes), time.Nanosecond, func() { err = update(s, changes) })
	return figure, err
}

func (w *world) allocations(s subject) (float64, error) {
	changes := w.changes(len(w.set.Pods))
	var err error
	count := measure.Allocations(func() { err = update(s, changes) })
	return count / float64(len(changes)), err
}
