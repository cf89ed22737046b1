package storebench

import (
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
)

func (w *world) updateCases() []measure.Case {
	return []measure.Case{
		{Name: "update", Unit: "µs", Goal: measure.AtMost(2.5), Sides: w.sides(w.updating(subject.update))},
		{Name: "update+snapshot", Unit: "µs", Goal: measure.AtMost(12), Sides: w.sides(w.updating(subject.updateAndLook))},
		{Name: "batch/in-order", Unit: "µs/object", Goal: measure.RatioAtMost(1.1), Sides: w.sides(w.updatingBatches(w.changesInOrder))},
		{Name: "batch/random", Unit: "µs/object", Goal: measure.RatioAtMost(3), Sides: w.sides(w.updatingBatches(w.changes))},
	}
}

func (w *world) updating(update func(subject, []*corev1.Pod) error) func(subject) (float64, error) {
	return func(s subject) (float64, error) {
		updates := w.changes(w.updates)
		var err error
		figure := measure.PerOp(len(updates), time.Microsecond, func() { err = update(s, updates) })
		return figure, err
	}
}

// updatingBatches measures commits of many updates. What a batch is made of is what the cache is given for it, from the pods on.
func (w *world) updatingBatches(changes func(int) []*corev1.Pod) func(subject) (float64, error) {
	return func(s subject) (float64, error) {
		pods := 0
		batches := make([][]*corev1.Pod, w.batches)
		for i := range batches {
			batches[i] = changes(w.batch)
			pods += len(batches[i])
		}
		var err error
		figure := measure.PerOp(pods, time.Microsecond, func() {
			for _, batch := range batches {
				if err = s.updateAtOnce(batch); err != nil {
					return
				}
			}
		})
		return figure, err
	}
}
