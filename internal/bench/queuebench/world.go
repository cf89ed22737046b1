package queuebench

import (
	"math/rand/v2"
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

// shuffle orders pods at random, in the same order in each run of the program.
func (w *world) shuffle(pods []*corev1.Pod) {
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
}

// sides makes a round for each side with a number of handlers. Each round has handlers of its own,
// which know the pods. Their number keeps the first list shorter than the measurement.
func (w *world) sides(handlers int, round func(subject) (float64, error)) func() (ours, peer measure.Round, err error) {
	known := w.set.Pods[:max(w.busy, len(w.set.Pods)/handlers)]
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
		return with(func() (subject, error) { return newOurs(handlers, known) }),
			with(func() (subject, error) { return newPeer(handlers, known) }), nil
	}
}

// footprint is what handlers need while nothing happens.
type footprint struct{ memory, goroutines float64 }

func look() footprint {
	heap := measure.LiveHeap()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{memory: float64(heap + m.StackInuse), goroutines: float64(runtime.NumGoroutine())}
}

// idle measures what one more handler needs: the difference between many and one.
func (w *world) idle(what func(footprint) float64) func() (ours, peer measure.Round, err error) {
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
			return (what(seen[1]) - what(seen[0])) / float64(w.scale.idle), nil
		}
	}
	return func() (ours, peer measure.Round, err error) {
		return each(func(n int) (subject, error) { return newOurs(n, nil) }),
			each(func(n int) (subject, error) { return newPeer(n, nil) }), nil
	}
}

// stalled measures the memory of many updates of one 4 KiB object while its only handler blocks.
func (w *world) stalled() (ours, peer measure.Round, err error) {
	kept := func(s subject, err error) (float64, error) {
		if err != nil {
			return 0, err
		}
		defer s.close()
		defer s.counting().stall()()
		before := measure.LiveHeap()
		s.counting().expect(w.updates)
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
