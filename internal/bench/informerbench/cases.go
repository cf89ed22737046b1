package informerbench

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
)

// Topic is the subcommand "informer".
var Topic = measure.Topic{Name: "informer", Summary: "from a watch to the handlers of an informer, beside client-go's shared informer", Cases: func(run *measure.World) []measure.Case {
	return newWorld(run, scale{size: objects.Size{Pods: 5_000, Namespaces: 50, Nodes: 100}, busy: 1_000, calls: 300_000, wired: 300_000, idle: 100, idleSoon: 2 * time.Second}).cases()
}}

func (w *world) cases() []measure.Case {
	var cases []measure.Case
	for _, handlers := range []int{1, 10, 100} {
		// As many other pods do not change, so that the cache is larger than the changing set.
		from := func(open func(int, *server) (*subject, error)) opener {
			return func(handlers int) (*subject, error) {
				return open(handlers, newServer(w.set.Pods[:2*w.busy], w.set.Version()))
			}
		}
		sides := func(g gauge) func() (ours, peer measure.Round, err error) {
			return between(g, handlers, func() [][]*corev1.Pod { return w.rounded(handlers) }, from(newOurs), from(newPeer))
		}
		name := fmt.Sprintf("fan-out/%d/", handlers)
		cases = append(cases,
			measure.Case{Name: name + "cpu", Unit: "ns/call", Sides: sides(cpu)},
			measure.Case{Name: name + "wall", Unit: "ns/call", Sides: sides(wall)},
			measure.Case{Name: name + "allocations", Unit: "allocs/call", Rounds: 1, Sides: sides(allocations)},
		)
	}
	cases = measure.Omitting("sockets, decoding, and work of handlers", cases...)
	all := func(open func(int, *server) (*subject, error)) opener {
		return func(handlers int) (*subject, error) { return open(handlers, newServer(w.set.Pods, w.set.Version())) }
	}
	return append(append(cases, w.loadCases()...), measure.Case{
		Name: "idle/memory", Omits: "what handlers keep after events", Unit: "bytes/handler", Rounds: 1, Sides: w.idleSides(memory, all(newOurs), all(newPeer)),
	})
}

// rounded returns the busy pods as a watch would report them after a change, again and again, until all handlers together are called often enough.
func (w *world) rounded(handlers int) (rounds [][]*corev1.Pod) {
	for range max(1, min(50, w.calls/handlers/w.busy)) {
		rounds = append(rounds, w.changes(w.busy))
	}
	return rounds
}

// looking is what looks at the informers of the cases "load": each alone, and then together.
var looking = []instruments{
	{}, // the difference that two runs have anyhow
	{page: true},
	{metrics: true},
	{traces: chosenTraces},
	{traces: sampledTraces},
	{traces: allTraces},
	{page: true, metrics: true},
	{page: true, metrics: true, traces: chosenTraces},
	{page: true, metrics: true, traces: allTraces},
}

// loadCases compare informers that are looked at with the same that are not. Objects come as bytes.
func (w *world) loadCases() (cases []measure.Case) {
	busy := w.set.Pods[:w.busy]
	wired := func(open func(int, *server) (*subject, error)) opener {
		return func(handlers int) (*subject, error) {
			from := newServer(w.set.Pods[:2*w.busy], w.set.Version())
			var err error
			if from.wire, err = newWire(from, busy); err != nil {
				return newSubject(handlers), err
			}
			return open(handlers, from)
		}
	}
	updates := func() [][]*corev1.Pod { return slices.Repeat([][]*corev1.Pod{busy}, w.wired/w.busy) }
	for _, look := range looking {
		goal := measure.RatioAtMost(1.03)
		if look.traces == sampledTraces || look.traces == allTraces {
			goal = measure.Goal{} // each call of a handler has a span
		}
		observed := func(handlers int, from *server) (*subject, error) { return observe(look, handlers, from) }
		cases = append(cases, measure.Case{
			Name: "load/" + look.name() + "/cpu", Omits: "sockets, work of handlers, and sending spans", Unit: "ns/event", Goal: goal, Best: true,
			Sides: between(cpu, 1, updates, wired(observed), wired(newOurs)),
		})
	}
	return cases
}
