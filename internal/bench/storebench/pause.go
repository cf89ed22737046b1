package storebench

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// pauseRounds is high, because the worst of many updates is often one that the machine stopped for some other reason.
const pauseRounds = 7

const warmUp = 100 // updates that are not measured

func (w *world) pauseCases() []measure.Case {
	return measure.Omitting("commits of many objects, and more than one reader",
		measure.Case{
			Name: "pause/slow-reader", Unit: "µs", Goal: measure.AtMost(100), Rounds: pauseRounds,
			Sides: w.sides(func(s subject) (float64, error) {
				return w.pause(s, func() error { return enough(s.walkSlowly(w.rester()), len(w.set.Pods)) })
			}),
		},
		// This case shows the machine's effect on an undisturbed writer. The case above cannot be
		// better.
		measure.Case{
			Name: "pause/no-reader", Unit: "µs", Rounds: pauseRounds,
			Sides: w.sides(func(s subject) (float64, error) {
				return w.pause(s, func() error {
					time.Sleep(time.Duration(w.rests) * w.rest)
					return nil
				})
			}),
		},
	)
}

// rester returns what a slow reader calls for each pod.
func (w *world) rester() func() {
	every := max(1, len(w.set.Pods)/w.rests)
	seen := 0
	return func() {
		if seen++; seen%every == 0 {
			time.Sleep(w.rest)
		}
	}
}

// pause returns the longest time that one update took, of those made at a steady pace while beside runs.
func (w *world) pause(s subject, beside func() error) (float64, error) {
	// Enough for a walk that takes three times as long as it should.
	updates := w.changes(int(3*time.Duration(w.rests)*w.rest/w.pace) + 1)
	runtime.GC()
	// The collection pushed the cache out of the CPU's; the first updates would be the worst whatever the reader does.
	if err := updateAll(s, w.changes(warmUp)); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	var walking atomic.Bool
	go func() {
		walking.Store(true)
		done <- beside()
	}()
	for !walking.Load() {
		// Not a channel: a writer that waits in one may wake up when the beginning, which is the interesting part, is over.
	}
	var worst time.Duration
	begin := time.Now()
	for i := range updates {
		start := time.Now()
		err := s.update(updates[i])
		worst = max(worst, time.Since(start))
		if err != nil {
			<-done
			return 0, err
		}
		select {
		case err := <-done: // after the first update at the earliest
			return float64(worst) / float64(time.Microsecond), err
		default:
		}
		w.wait(start, time.Since(begin))
	}
	return float64(worst) / float64(time.Microsecond), <-done
}

// wait keeps the pace of a writer whose last update began at start. It keeps the pace exactly while
// a walk begins, because then a snapshot is taken, or the peer copies. A call of time.Sleep may
// take so long that the writer misses both. Afterwards the writer sleeps: if a writer never rests,
// the system interrupts it more often in the middle of an update.
func (w *world) wait(start time.Time, walked time.Duration) {
	if walked > time.Duration(w.rests)*w.rest/20 {
		time.Sleep(w.pace)
		return
	}
	// Without runtime.Gosched, which could hand this CPU to the reader for the time of the copy.
	for time.Since(start) < w.pace {
	}
}

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
