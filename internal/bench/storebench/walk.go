package storebench

import (
	"runtime"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

func (w *world) walkCases() []measure.Case {
	return measure.Omitting("the snapshot that the first reader after a commit makes",
		measure.Case{Name: "walk/all", Omits: "a cold walk: all but the first find warm CPU caches", Unit: "ms", Goal: measure.RatioAtMost(0.6), Sides: w.sides(w.walking)},
		measure.Case{Name: "walk/all-allocations", Omits: "what only the first walk allocates", Unit: "allocs/walk", Goal: measure.AtMost(0), Rounds: 1, Sides: w.sides(w.walkAllocations)},
		measure.Case{Name: "walk/node", Omits: "a cold walk, and nodes without pods", Unit: "µs", Goal: measure.RatioAtMost(0.25), Sides: w.sides(w.walkingNodes)},
		measure.Case{Name: "walk/node-allocations", Omits: "what a walk of a node without pods allocates", Unit: "allocs/object", Goal: measure.AtMost(0), Rounds: 1, Sides: w.sides(w.nodeAllocations)},
		measure.Case{Name: "walk/once-cold", Unit: "ms", Goal: measure.RatioAtMost(1), Sides: w.sides(w.walkingOnce(subject.walk))},
		measure.Case{Name: "walk/once-cold-keys", Unit: "ms", Goal: measure.RatioAtMost(1.3), Sides: w.sides(w.walkingOnce(subject.walkKeys))},
		measure.Case{Name: "walk/once-cold-half-updated", Unit: "ms", Goal: measure.RatioAtMost(1.8), Sides: w.halfUpdated(w.walkingOnce(subject.walk))},
		measure.Case{Name: "walk/once-cold-keys-half-updated", Unit: "ms", Sides: w.halfUpdated(w.walkingOnce(subject.walkKeys))},
		measure.Case{Name: "walk/all-used", Unit: "ms", Rounds: 1, Sides: w.sides(w.walkingUsed)},
	)
}

// walking runs for so long that the runtime has to collect the garbage of the walks. That garbage
// is most of the cost of a List, which makes a slice of all pods each time. Without a collection in
// the measured time, a List would look several times as fast as in a program.
func (w *world) walking(s subject) (float64, error) {
	found := 0
	figure := measure.PerOp(w.walks, time.Millisecond, func() {
		for range w.walks {
			found += s.walk()
		}
	})
	return figure, enough(found, w.walks*len(w.set.Pods))
}

// walkingOnce walks all pods once, which the CPU's caches have forgotten: what a resync, a health check or a metric costs.
func (w *world) walkingOnce(walk func(subject) int) func(subject) (float64, error) {
	return func(s subject) (float64, error) {
		walk(s) // what the first reader after a commit pays has a case of its own
		runtime.GC()
		for i := range w.flush {
			w.flush[i]++
		}
		found := 0
		figure := measure.PerOp(1, time.Millisecond, func() { found = walk(s) })
		return figure, enough(found, len(w.set.Pods))
	}
}

// halfUpdated makes sides in which every second pod has changed since the cache was filled, in no
// order.
func (w *world) halfUpdated(round func(subject) (float64, error)) func() (ours, peer measure.Round, err error) {
	prepared := w.sides(round)
	return func() (ours, peer measure.Round, err error) {
		ours, peer, err = prepared()
		if err != nil {
			return nil, nil, err
		}
		for _, s := range []subject{w.ours, w.peer} {
			if err := s.update(w.changes(len(w.set.Pods) / 2)); err != nil {
				return nil, nil, err
			}
		}
		return ours, peer, nil
	}
}

// walkingUsed walks a cache in which many pods have changed since it was filled, so that neighbours are no longer neighbours in memory.
func (w *world) walkingUsed(s subject) (float64, error) {
	if err := s.update(w.changes(w.updates)); err != nil {
		return 0, err
	}
	s.walk() // what the first reader after a commit pays has a case of its own
	return w.walking(s)
}

func (w *world) walkAllocations(s subject) (float64, error) {
	found := 0
	count := measure.Allocations(func() { found = s.walk() })
	return count, enough(found, len(w.set.Pods))
}

// walkingNodes measures how long it takes to read the pods of one node, as the mean of all nodes.
func (w *world) walkingNodes(s subject) (float64, error) {
	found := 0
	figure := measure.PerOp(w.sweeps*len(w.set.Nodes), time.Microsecond, func() {
		for range w.sweeps {
			found += s.walkNodes(w.set.Nodes)
		}
	})
	return figure, enough(found, w.sweeps*len(w.set.Pods))
}

// nodeAllocations leaves out what a call allocates even if there is no pod to find.
func (w *world) nodeAllocations(s subject) (float64, error) {
	found := 0
	all := measure.Allocations(func() { found = s.walkNodes(w.set.Nodes) })
	unknown := make([]string, len(w.set.Nodes))
	for i := range unknown {
		unknown[i] = "no-such-node"
	}
	calls := measure.Allocations(func() { found += s.walkNodes(unknown) })
	return max(0, all-calls) / float64(len(w.set.Pods)), enough(found, len(w.set.Pods))
}
