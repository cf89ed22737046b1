package queuebench

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
)

// scale says how much is measured at once.
type scale struct {
	size    objects.Size
	busy    int // pods that change all the time
	rounds  int // in which each of them changes once
	idle    int // handlers that have nothing to do
	updates int // of one object, while its handler is stalled
}

var full = scale{size: objects.Size{Pods: 50_000, Namespaces: 100, Nodes: 500}, busy: 1_000, rounds: 50, idle: 1_000, updates: 50_000}

type world struct {
	scale
	set *objects.Set
}

func newWorld(s scale) *world { return &world{scale: s, set: objects.NewSet(s.size)} }

// changes returns the first pods as a watch would report them after a change.
func (w *world) changes(n int) []*corev1.Pod {
	changed := make([]*corev1.Pod, n)
	for i, pod := range w.set.Pods[:n] {
		changed[i] = w.set.Changed(pod)
	}
	return changed
}

// sides makes a round for each side with a number of handlers. Each round has handlers of its own, which know the pods.
func (w *world) sides(handlers int, round func(subject) (float64, error)) func() (ours, peer measure.Round, err error) {
	with := func(open func() (subject, error)) measure.Round {
		return func() (float64, error) {
			s, err := open()
			if err != nil {
				return 0, err
			}
			defer s.close()
			return round(s)
		}
	}
	return func() (ours, peer measure.Round, err error) {
		return with(func() (subject, error) { return newOurs(handlers, w.set.Pods) }),
			with(func() (subject, error) { return newPeer(handlers, w.set.Pods) }), nil
	}
}

// footprint is what handlers need while nothing happens.
type footprint struct{ heap, goroutines float64 }

func look() footprint {
	return footprint{heap: float64(measure.LiveHeap()), goroutines: float64(runtime.NumGoroutine())}
}

// idle measures what one more handler needs: the difference between many and one.
func (w *world) idle(what func(before, after footprint) float64) func() (ours, peer measure.Round, err error) {
	each := func(open func(handlers int) (subject, error)) measure.Round {
		return func() (float64, error) {
			var seen [2]footprint
			for i, handlers := range []int{1, 1 + w.scale.idle} {
				s, err := open(handlers)
				if err != nil {
					return 0, err
				}
				seen[i] = look()
				s.close()
			}
			return what(seen[0], seen[1]) / float64(w.scale.idle), nil
		}
	}
	return func() (ours, peer measure.Round, err error) {
		return each(func(n int) (subject, error) { return newOurs(n, nil) }),
			each(func(n int) (subject, error) { return newPeer(n, nil) }), nil
	}
}

// stalled measures what is kept of many updates of one object of 4 KiB while its only handler does not come back.
func (w *world) stalled() (ours, peer measure.Round, err error) {
	kept := func(s subject, err error) (float64, error) {
		if err != nil {
			return 0, err
		}
		defer s.close()
		defer s.counting().stall()()
		before := measure.LiveHeap()
		s.counting().Expect(w.updates)
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
	return func() (float64, error) { return kept(newOurs(1, w.set.Pods[:1])) },
		func() (float64, error) { return kept(newPeer(1, w.set.Pods[:1])) }, nil
}
