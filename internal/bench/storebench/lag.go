package storebench

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// listers is the number of readers that list everything without pause, as a scheduler or an autoscaler may.
const listers = 50

// lagCases measure how far a cache falls behind its watch while readers list all of it (kubernetes/kubernetes 130767).
func (w *world) lagCases() []measure.Case {
	return []measure.Case{{
		Name: "lag-p99/50-listers", Unit: "ms", Omits: "the watch, decoding, and handlers", Goal: measure.AtMost(20), Rounds: 3, Sides: w.sides(w.lagging),
	}}
}

// lagging commits an event each millisecond and returns the 99th percentile of the time from when it was due until the cache had it. Events that a cache
// did not take within the round count with the time that they have waited.
func (w *world) lagging(s subject) (float64, error) {
	updates := w.changes(int(w.lag / time.Millisecond))
	var readers sync.WaitGroup
	var stop atomic.Bool
	var listed atomic.Int64
	for range listers {
		readers.Go(func() {
			for !stop.Load() {
				listed.Add(int64(s.walk()))
			}
		})
	}
	lags := make([]time.Duration, len(updates))
	start := time.Now()
	due := func(i int) time.Time { return start.Add(time.Duration(i) * time.Millisecond) }
	var err error
	for i := range updates {
		time.Sleep(time.Until(due(i)))
		if time.Since(start) > 2*w.lag {
			for j := i; j < len(updates); j++ {
				lags[j] = time.Since(due(j))
			}
			break
		}
		if err = s.update(updates[i]); err != nil {
			break
		}
		lags[i] = time.Since(due(i))
	}
	stop.Store(true)
	readers.Wait()
	if err == nil {
		err = enough(int(listed.Load()), len(w.set.Pods))
	}
	slices.Sort(lags)
	return float64(lags[len(lags)*99/100]) / float64(time.Millisecond), err
}
