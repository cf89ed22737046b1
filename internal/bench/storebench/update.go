package storebench

import (
	"errors"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
)

func (w *world) updateCases() []measure.Case {
	return measure.Omitting("additions, deletions, and pods that change their node",
		measure.Case{Name: "update/2-indexes", Unit: "µs", Goal: measure.RatioAtMost(0.9), Sides: w.sides(w.updating(w.changes, subject.update))},
		measure.Case{Name: "update/2-indexes-hot", Unit: "µs", Goal: measure.RatioAtMost(1), Sides: w.sides(w.updating(w.hotChanges, subject.update))},
		measure.Case{Name: "update/no-index", Unit: "µs", Goal: measure.RatioAtMost(1.2), Sides: w.plainSides(w.updating(w.changes, subject.update))},
		measure.Case{Name: "update+snapshot", Omits: "reading the snapshot, and readers that keep old ones", Unit: "µs", Goal: measure.RatioAtMost(4), Sides: w.sides(w.updating(w.changes, subject.updateAndLook))},
		measure.Case{Name: "update+snapshot-every-100", Omits: "reading the snapshot, and readers that keep old ones", Unit: "µs", Goal: measure.RatioAtMost(2), Sides: w.sides(w.updating(w.changes, lookEvery(100)))},
		measure.Case{Name: "batch/in-order", Unit: "µs/object", Goal: measure.RatioAtMost(0.9), Sides: w.sides(w.updatingBatches(w.changesInOrder))},
		measure.Case{Name: "batch/random", Unit: "µs/object", Goal: measure.RatioAtMost(1.2), Sides: w.sides(w.updatingBatches(w.changes))},
	)
}

func (w *world) updating(changes func(int) []*corev1.Pod, update func(subject, []*corev1.Pod) error) func(subject) (float64, error) {
	return func(s subject) (float64, error) {
		updates := changes(w.updates)
		var err error
		figure := measure.PerOp(len(updates), time.Microsecond, func() { err = update(s, updates) })
		return figure, err
	}
}

// lookEvery updates pods one by one, and a reader that wants one state for many reads comes after each n of them.
func lookEvery(n int) func(subject, []*corev1.Pod) error {
	return func(s subject, pods []*corev1.Pod) error {
		for chunk := range slices.Chunk(pods, n) {
			last := len(chunk) - 1
			if err := errors.Join(s.update(chunk[:last]), s.updateAndLook(chunk[last:])); err != nil {
				return err
			}
		}
		return nil
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
