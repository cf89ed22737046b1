package storebench

import (
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

var listGoals = map[int]measure.Goal{1_000: measure.RatioAtMost(1.2)}

// listCases measure the first list, into an empty cache with two indexes.
func (w *world) listCases() []measure.Case {
	var all []measure.Case
	for _, n := range w.lists {
		all = append(all, measure.Case{
			Name: fmt.Sprintf("first-list/%d", n), Unit: "µs/object", Goal: listGoals[n], Omits: "decoding, and objects that the cache has already",
			Sides: func() (ours, peer measure.Round, err error) {
				return func() (float64, error) { return w.firstList(n, func() (subject, error) { return newOurs() }) },
					func() (float64, error) { return w.firstList(n, func() (subject, error) { return newPeer(), nil }) }, nil
			},
		})
	}
	return all
}

// firstList fills several empty caches, so that a round of small lists is as long as one of large ones.
func (w *world) firstList(n int, empty func() (subject, error)) (float64, error) {
	caches := make([]subject, max(1, len(w.set.Pods)/n))
	for i := range caches {
		var err error
		if caches[i], err = empty(); err != nil {
			return 0, err
		}
	}
	var err error
	figure := measure.PerOp(n*len(caches), time.Microsecond, func() {
		for _, s := range caches {
			if err = s.replace(w.set.Pods[:n], w.set.Version()); err != nil {
				return
			}
		}
	})
	if err == nil {
		err = enough(caches[0].len(), n)
	}
	return figure, err
}
