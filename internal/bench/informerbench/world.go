package informerbench

import (
	"runtime"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
)

// scale says how much is measured at once.
type scale struct {
	size    objects.Size
	busy    int // pods that change all the time
	calls   int // the approximate number of calls of all handlers in a measurement
	wired   int // changes that come as bytes in a measurement
	rounds  int // in which each busy pod changes once
	updates int // of one object, while its handler is stalled
	idle    int // handlers that have nothing to do
	// idleSoon is after what time a handler counts as idle: a collection keeps for a second what a burst of events needed.
	idleSoon time.Duration
}

var tiny = scale{size: objects.Size{Pods: 50, Namespaces: 3, Nodes: 5}, busy: 10, calls: 200, wired: 40, rounds: 2, updates: 10, idle: 3}

type world struct {
	scale
	set *objects.Set
}

func newWorld(run *measure.World, s scale) *world {
	if run.Size == measure.Tiny {
		s = tiny
	}
	return &world{scale: s, set: objects.NewSet(s.size)}
}

// changes returns the first pods as a watch would report them after a change.
func (w *world) changes(n int) []*corev1.Pod {
	changed := make([]*corev1.Pod, n)
	for i, pod := range w.set.Pods[:n] {
		changed[i] = w.set.Changed(pod)
	}
	return changed
}

// opener opens an informer with so many handlers.
type opener func(handlers int) (*subject, error)

// with makes a round that opens an informer of its own.
func with(open opener, handlers int, round func(*subject) (float64, error)) measure.Round {
	return func() (float64, error) {
		s, err := open(handlers)
		defer s.close()
		if err != nil {
			return 0, err
		}
		return round(s)
	}
}

// gauge measures a function that makes a number of calls, as a figure for one of them.
type gauge func(calls int, f func()) float64

func wall(calls int, f func()) float64 { return measure.PerOp(calls, time.Nanosecond, f) }

func cpu(calls int, f func()) float64 { return float64(measure.CPU(f)) / float64(calls) }

func allocations(calls int, f func()) float64 { return measure.Allocations(f) / float64(calls) }

// between measures two kinds of informers, which get updates round by round.
func between(g gauge, handlers int, updates func() [][]*corev1.Pod, one, other opener) func() (ours, peer measure.Round, err error) {
	round := func(s *subject) (figure float64, err error) {
		rounds := updates()
		calls := 0
		for _, pods := range rounds {
			calls += len(pods) * handlers
		}
		figure = g(calls, func() {
			for _, pods := range rounds {
				if err == nil {
					err = s.update(pods)
				}
			}
		})
		return figure, err
	}
	return func() (ours, peer measure.Round, err error) {
		return with(one, handlers, round), with(other, handlers, round), nil
	}
}

// idleSides measures what one more handler needs: the difference between many and one.
func (w *world) idleSides(figure func() float64, one, other opener) func() (ours, peer measure.Round, err error) {
	each := func(open opener) measure.Round {
		look := func(*subject) (float64, error) {
			time.Sleep(w.idleSoon)
			return figure(), nil
		}
		return func() (float64, error) {
			few, err := with(open, 1, look)()
			if err != nil {
				return 0, err
			}
			many, err := with(open, 1+w.idle, look)()
			return (many - few) / float64(w.idle), err
		}
	}
	return func() (ours, peer measure.Round, err error) { return each(one), each(other), nil }
}

// memory returns the bytes of the live heap and of stacks.
func memory() float64 {
	heap := measure.LiveHeap() // first: a collection shrinks stacks
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(heap) + float64(stats.StackInuse)
}
