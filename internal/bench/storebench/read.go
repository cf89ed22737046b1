package storebench

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
)

const manyReaders = 8

// chunk is how many reads or updates are made between two looks at whether to stop.
const chunk = 64

func (w *world) readCases() []measure.Case {
	const besideWriter = "additions and deletions by the writer, and misses"
	return measure.Omitting("misses, and reading the fields of the pod",
		measure.Case{Name: "get/1-reader", Unit: "ns", Goal: measure.RatioAtMost(0.65), Sides: w.sides(w.reading(1, w.names))},
		measure.Case{Name: "get/8-readers", Unit: "ns", Goal: measure.RatioAtMost(0.65), Sides: w.sides(w.reading(manyReaders, w.names))},
		measure.Case{Name: "get/1-reader-foreign", Unit: "ns", Goal: measure.RatioAtMost(0.9), Sides: w.sides(w.reading(1, w.foreign))},
		measure.Case{Name: "get/8-readers-foreign", Unit: "ns", Goal: measure.RatioAtMost(0.9), Sides: w.sides(w.reading(manyReaders, w.foreign))},
		measure.Case{Name: "get/1-reader+writer", Omits: besideWriter, Unit: "ns", Goal: measure.RatioAtMost(0.6), Sides: w.sides(w.readingBesideWriter(1))},
		measure.Case{Name: "get/8-readers+writer", Omits: besideWriter, Unit: "ns", Goal: measure.RatioAtMost(0.6), Sides: w.sides(w.readingBesideWriter(manyReaders))},
	)
}

// reading measures point reads by some readers at the same time: the time that all took together, for each read that any of them made.
func (w *world) reading(readers int, names []name) round {
	return func(s subject) (float64, error) {
		r := reader{subject: s, names: names, limit: w.reads / readers}
		return r.run(readers, func() error { return nil })
	}
}

// readingBesideWriter measures point reads while one writer updates random pods as fast as it can. The readers read until its updates are used up.
func (w *world) readingBesideWriter(readers int) round {
	return func(s subject) (float64, error) {
		updates := w.changes(w.updates)
		r := reader{subject: s, names: w.names, limit: math.MaxInt}
		return r.run(readers, func() error {
			defer r.stop.Store(true)
			return w.writeFast(s, updates)
		})
	}
}

func (w *world) writeFast(s subject, updates []*corev1.Pod) error {
	for start := time.Now(); len(updates) > 0 && time.Since(start) < w.writing; {
		n := min(chunk, len(updates))
		if err := updateAll(s, updates[:n]); err != nil {
			return err
		}
		updates = updates[n:]
	}
	return nil
}

// reader is what the readers of one round have in common.
type reader struct {
	subject subject
	names   []name
	limit   int         // reads of one reader
	stop    atomic.Bool // no more, whatever the limit
}

// run starts readers and meanwhile runs something beside them. It returns nanoseconds a read.
func (r *reader) run(readers int, beside func() error) (float64, error) {
	var group sync.WaitGroup
	var reads, found atomic.Int64
	var err error
	elapsed := measure.Elapsed(func() {
		for i := range readers {
			group.Go(func() {
				n, hits := r.read(i * len(r.names) / readers)
				reads.Add(int64(n))
				found.Add(int64(hits))
			})
		}
		err = beside()
		group.Wait()
	})
	if err == nil {
		err = enough(int(found.Load()), int(reads.Load()))
	}
	return float64(elapsed) / float64(reads.Load()), err
}

// read goes round in the names, from one of them on.
func (r *reader) read(next int) (reads, found int) {
	for reads < r.limit {
		n := min(chunk, r.limit-reads, len(r.names)-next)
		found += r.subject.read(r.names[next : next+n])
		reads += n
		next = (next + n) % len(r.names)
		if r.stop.Load() {
			break
		}
	}
	return reads, found
}
