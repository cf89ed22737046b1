package storebench

import (
	"runtime"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

func (w *world) heapCases() []measure.Case {
	return []measure.Case{{
		Name: "heap", Unit: "bytes/object", Omits: "the objects, and what updates leave behind", Goal: measure.RatioAtMost(1.05), Rounds: 1,
		Sides: func() (ours, peer measure.Round, err error) {
			return func() (float64, error) { return w.heap(func() (subject, error) { return newOurs() }) },
				func() (float64, error) { return w.heap(func() (subject, error) { return newPeer(), nil }) }, nil
		},
	}}
}

// heap measures what a cache needs for an object, on top of the object itself, after it was filled in the order of keys.
func (w *world) heap(empty func() (subject, error)) (float64, error) {
	before := measure.LiveHeap()
	s, err := empty()
	if err != nil {
		return 0, err
	}
	if err := s.replace(w.set.Pods, w.set.Version()); err != nil {
		return 0, err
	}
	after := measure.LiveHeap()
	err = enough(s.walk(), len(w.set.Pods))
	runtime.KeepAlive(w.set)
	return (float64(after) - float64(before)) / float64(len(w.set.Pods)), err
}
