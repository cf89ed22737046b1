package eventqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/store"
)

// commits returns commits that update n objects one after the other.
func commits(n int) []*store.Commit[*thing] {
	all := make([]*store.Commit[*thing], n)
	for i := range all {
		o := at(fmt.Sprint("object-", i), fmt.Sprint("uid-", i), i+1)
		all[i] = &store.Commit[*thing]{Origin: Watch, Changes: []store.Change[*thing]{{
			Type: Modification, Key: key(o.name), Prior: o, Object: o, Version: store.Version{UID: o.uid, ResourceVersion: o.version},
		}}}
	}
	return all
}

// consuming runs Process with a handler that looks at each event, until the returned
// function is called.
func consuming(b *testing.B, c *Collection[*thing], workers int) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		c.Process(ctx, workers, func(ctx context.Context, q *Queue[*thing]) error {
			return q.Each(ctx, func(e Event[*thing]) error {
				if e.Object == nil {
					b.Error("an event without an object")
				}
				return nil
			})
		}, func(context.Context, *HandlerError) { b.Error("the handler failed") })
	})
	return func() { cancel(); running.Wait() }
}

// round is after how many commits the benchmarks below wait until all is handled, so
// that the handlers' time counts.
const round = 1000

func drain(b *testing.B, c *Collection[*thing]) {
	if err := c.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEvent measures what this package adds to a commit, until its event has
// been handled. Keys are as many as a busy controller has; the commits themselves
// cost nothing.
func BenchmarkEvent(b *testing.B) {
	for _, workers := range []int{1, 10} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			c := newThings(WithCompaction(KeepAll))
			all := commits(1000)
			defer consuming(b, c, workers)()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.follower.Commit(all[i%len(all)])
				if i++; i%round == 0 {
					drain(b, c)
				}
			}
		})
	}
}

// inTurn runs BenchmarkEvent without goroutines: one event comes, is taken and acknowledged.
func inTurn(b *testing.B, opts ...Option) {
	c := newThings(append(opts, WithCompaction(KeepLatest))...)
	all := commits(1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.follower.Commit(all[i%len(all)])
		q, _ := c.Take(b.Context())
		q.Done()
		i++
	}
}

func BenchmarkEventInTurn(b *testing.B) { inTurn(b) }

// BenchmarkEventFromStore begins at the store: an update is committed to a cache that
// holds the object, and its event is handled.
func BenchmarkEventFromStore(b *testing.B) {
	c := newThings(WithCompaction(KeepAll))
	var objects []*thing
	for i := range 1000 {
		objects = append(objects, at(fmt.Sprint("object-", i), fmt.Sprint("uid-", i), i+1))
	}
	defer consuming(b, c, 1)()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := c.Update(objects[i%len(objects)]); err != nil {
			b.Fatal(err)
		}
		if i++; i%round == 0 {
			drain(b, c)
		}
	}
}

// BenchmarkMerge adds an event to one that waits.
func BenchmarkMerge(b *testing.B) {
	c := newThings(WithCompaction(KeepLatest))
	commit := commits(1)[0]
	b.ReportAllocs()
	for b.Loop() {
		c.follower.Commit(commit)
	}
}

// BenchmarkStats reads the statistics while 100,000 keys wait.
func BenchmarkStats(b *testing.B) {
	c := newThings()
	for _, commit := range commits(100_000) {
		c.follower.Commit(commit)
	}
	b.ReportAllocs()
	for b.Loop() {
		if c.Stats().Waiting != 100_000 {
			b.Fatal("wrong")
		}
	}
}

// BenchmarkObserver is BenchmarkEventInTurn with and without an observer.
func BenchmarkObserver(b *testing.B) {
	for name, opts := range map[string][]Option{"nobody": nil, "deaf": {WithObserver(func(TakeInfo) {})}} {
		b.Run(name, func(b *testing.B) { inTurn(b, opts...) })
	}
}

func BenchmarkResync(b *testing.B) {
	c := Follow(manyThings(b, 100_000))
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		c.Resync()
	}
}
