package informerbench

import (
	"runtime"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
)

// scale says how much is measured at once.
type scale struct {
	size  objects.Size
	busy  int // pods that change all the time
	calls int // the approximate number of calls of all handlers in a measurement
	wired int // changes that come as bytes in a measurement
	idle  int // handlers that have nothing to do
}

var full = scale{size: objects.Size{Pods: 5_000, Namespaces: 50, Nodes: 100}, busy: 1_000, calls: 300_000, wired: 300_000, idle: 100}

type world struct {
	scale
	set *objects.Set
}

func newWorld(s scale) *world { return &world{scale: s, set: objects.NewSet(s.size)} }

// changes returns the busy pods as a watch would report them after a change, again and again, until all handlers together are called often enough.
func (w *world) changes(handlers int) (rounds [][]*corev1.Pod) {
	for range max(1, min(50, w.calls/handlers/w.busy)) {
		changed := make([]*corev1.Pod, w.busy)
		for i, pod := range w.set.Pods[:w.busy] {
			changed[i] = w.set.Changed(pod)
		}
		rounds = append(rounds, changed)
	}
	return rounds
}

// gauge measures a function that makes a number of calls, as a figure for one of them.
type gauge func(calls int, f func()) float64

func wall(calls int, f func()) float64 { return measure.PerOp(calls, time.Nanosecond, f) }

func cpu(calls int, f func()) float64 {
	return float64(measure.CPU(f)) / float64(calls)
}

func allocations(calls int, f func()) float64 { return measure.Allocations(f) / float64(calls) }

// sides makes a round for each side, with a number of handlers. Each round has an informer of its own.
func (w *world) sides(handlers int, g gauge) func() (ours, peer measure.Round, err error) {
	return w.between(handlers, g, false, newOurs, newPeer)
}

// between makes a round for each of two kinds of informers. If they are wired, objects come as bytes.
func (w *world) between(handlers int, g gauge, wired bool, one, other func(int, *server) (subject, error)) func() (ours, peer measure.Round, err error) {
	with := func(open func(int, *server) (subject, error)) measure.Round {
		return func() (figure float64, err error) {
			// As many other pods do not change, so that the cache is larger than the changing set.
			var rounds [][]*corev1.Pod
			from := newServer(w.set.Pods[:2*w.busy], w.set.Version())
			if wired {
				rounds = slices.Repeat([][]*corev1.Pod{w.set.Pods[:w.busy]}, w.wired/w.busy)
				if from.wire, err = newWire(from, w.set.Pods[:w.busy]); err != nil {
					return 0, err
				}
			} else {
				rounds = w.changes(handlers)
			}
			s, err := open(handlers, from)
			defer s.close()
			if err != nil {
				return 0, err
			}
			figure = g(len(rounds)*w.busy*handlers, func() {
				for _, changed := range rounds {
					if err == nil {
						err = update(s, changed)
					}
				}
			})
			return figure, err
		}
	}
	return func() (ours, peer measure.Round, err error) { return with(one), with(other), nil }
}

// idleSoon is after what time a handler counts as one that has nothing to do: a collection keeps for a second what a burst of events needed.
const idleSoon = 2 * time.Second

// idleMemory measures the memory of one more idle handler that was called for all pods. It divides
// the difference between many handlers and one. The stacks of the handler's goroutines count.
func (w *world) idleMemory() (ours, peer measure.Round, err error) {
	each := func(open func(int, *server) (subject, error)) measure.Round {
		return func() (float64, error) {
			var seen [2]float64
			for i, handlers := range []int{1, 1 + w.idle} {
				s, err := open(handlers, newServer(w.set.Pods, w.set.Version()))
				if err == nil {
					time.Sleep(idleSoon)
					seen[i] = memory()
				}
				s.close()
				if err != nil {
					return 0, err
				}
			}
			return (seen[1] - seen[0]) / float64(w.idle), nil
		}
	}
	return each(newOurs), each(newPeer), nil
}

// memory returns the bytes of the live heap and of stacks.
func memory() float64 {
	heap := measure.LiveHeap() // first: a collection shrinks stacks
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(heap) + float64(stats.StackInuse)
}
