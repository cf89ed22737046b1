package eventqueue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// firstOnly are the ways in which a consumer stops at the first event of a queue.
var firstOnly = map[string]func(t *testing.T, c *Collection[*thing]){
	"Each fails": func(t *testing.T, c *Collection[*thing]) {
		handOne(t, c, func(ctx context.Context, q *Queue[*thing]) error {
			return q.Each(ctx, func(Event[*thing]) error { return errNo })
		})
	},
	"Each panics": func(t *testing.T, c *Collection[*thing]) {
		handOne(t, c, func(ctx context.Context, q *Queue[*thing]) error {
			return q.Each(ctx, func(Event[*thing]) error { panic("ouch") })
		})
	},
	"Each ends the goroutine": func(t *testing.T, c *Collection[*thing]) {
		handOne(t, c, func(ctx context.Context, q *Queue[*thing]) error {
			return q.Each(ctx, func(Event[*thing]) error { exit(); return nil })
		})
	},
	"ProcessEach fails": func(t *testing.T, c *Collection[*thing]) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c.ProcessEach(ctx, 1, func(context.Context, Event[*thing]) error { stop(); return errNo }, nil)
	},
	"a loop over Events breaks": func(t *testing.T, c *Collection[*thing]) {
		for range c.Events(t.Context()) {
			break
		}
	},
	"a loop over Queue.Events breaks": func(t *testing.T, c *Collection[*thing]) {
		for q := range c.Queues(t.Context()) {
			for range q.Events() {
				q.Fail(errNo)
				break
			}
			break
		}
	},
	"Oldest, then Requeue": func(t *testing.T, c *Collection[*thing]) {
		q := take(t, c)
		oldest(q)
		q.Requeue()
	},
}

// interruptedAfterOne are the ways in which a consumer is interrupted after the first event.
var interruptedAfterOne = map[string]func(t *testing.T, c *Collection[*thing]){
	"Each, and the context ends": func(t *testing.T, c *Collection[*thing]) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c.Process(ctx, 1, func(ctx context.Context, q *Queue[*thing]) error {
			return q.Each(ctx, func(Event[*thing]) error { stop(); return nil })
		}, nil)
	},
	"a loop over Events, and the context ends": func(t *testing.T, c *Collection[*thing]) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for range c.Events(ctx) {
			stop()
		}
	},
	"Each gives up the first": func(t *testing.T, c *Collection[*thing]) {
		handOne(t, c, func(ctx context.Context, q *Queue[*thing]) error {
			return q.Each(ctx, func(Event[*thing]) error { return Permanent(errNo) })
		})
	},
}

// merging are the policies that merge an addition with the deletion behind it.
var merging = map[string]func(t *testing.T) *Collection[*thing]{
	"KeepLatest": func(t *testing.T) *Collection[*thing] {
		return opened(t, WithCompaction(KeepLatest), WithBackoff(time.Hour, time.Hour))
	},
	"KeepIf": func(t *testing.T) *Collection[*thing] {
		c := opened(t, WithCompaction(KeepAll), WithBackoff(time.Hour, time.Hour))
		c.KeepIf(func(Event[*thing]) bool { return false })
		return c
	},
}

// waitingTwo returns a collection in which the deletion of an object and the addition of
// another wait under one key.
func waitingTwo(t *testing.T, open func(*testing.T) *Collection[*thing]) *Collection[*thing] {
	c := open(t)
	put(t, c, at("a", "u", 2))
	require.Equal(t, []string{"+2"}, next(t, c))
	recreated(t, c, at("a", "u", 3), at("a", "v", 4))
	return c
}

func TestObjectThatWasNotHandedOverGetsNoDeletion(t *testing.T) {
	for policy, open := range merging {
		for way, stop := range firstOnly {
			t.Run(policy+"/"+way, func(t *testing.T) {
				c := waitingTwo(t, open)
				stop(t, c)
				remove(t, c, at("a", "v", 5))
				put(t, c, at("a", "w", 6))
				assert.Equal(t, []string{"-3(2)", "+6"}, next(t, c))
				remove(t, c, at("a", "w", 7))
				assert.Equal(t, []string{"-7(6)"}, next(t, c))
				assert.Nil(t, next(t, c))
			})
		}
		for way, stop := range interruptedAfterOne {
			t.Run(policy+"/"+way, func(t *testing.T) {
				c := waitingTwo(t, open)
				stop(t, c)
				remove(t, c, at("a", "v", 5))
				assert.Nil(t, next(t, c))
			})
		}
	}
}

func TestAdditionThatWasNotHandedOverIsCancelledByADeletionThatCameMeanwhile(t *testing.T) {
	for name, row := range map[string]struct {
		then func(t *testing.T, c *Collection[*thing])
		want []string
	}{
		"nothing else":    {func(*testing.T, *Collection[*thing]) {}, nil},
		"another object":  {func(t *testing.T, c *Collection[*thing]) { put(t, c, at("a", "w", 6)) }, []string{"+6"}},
		"and its changes": {func(t *testing.T, c *Collection[*thing]) { put(t, c, at("a", "w", 6)); put(t, c, at("a", "w", 7)) }, []string{"+7"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := waitingTwo(t, merging["KeepLatest"])
			q := take(t, c)
			n := 0
			err := q.Each(t.Context(), func(Event[*thing]) error {
				if n++; n == 1 {
					remove(t, c, at("a", "v", 5))
					row.then(t, c)
				}
				return Permanent(errNo)
			})
			q.Fail(err)
			assert.Equal(t, row.want, next(t, c))
			stats := c.Stats()
			assert.Zero(t, stats.Keys+stats.Waiting+stats.InFlight+stats.Delayed+stats.Events)
			assert.NoError(t, c.Drain(t.Context()))
			put(t, c, at("b", "x", 9))
			assert.Equal(t, []string{"+9"}, next(t, c))
		})
	}
}

func TestObjectThatWasHandedOverGetsItsDeletion(t *testing.T) {
	for way, see := range map[string]func(t *testing.T, q *Queue[*thing]){
		"Newest":       func(_ *testing.T, q *Queue[*thing]) { q.Newest() },
		"Events":       func(_ *testing.T, q *Queue[*thing]) { collect(q) },
		"its key":      func(_ *testing.T, q *Queue[*thing]) { q.Key() },
		"Each at last": func(t *testing.T, q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("4", errNo)) },
	} {
		t.Run(way, func(t *testing.T) {
			c := waitingTwo(t, merging["KeepLatest"])
			q := take(t, c)
			see(t, q)
			q.Fail(errNo)
			remove(t, c, at("a", "v", 5))
			events := next(t, c)
			assert.Equal(t, "-5", events[len(events)-1])
		})
	}
}

func TestQueueThatFailsBeforeItsFirstEventCanBeMergedAway(t *testing.T) {
	c := merging["KeepLatest"](t)
	put(t, c, at("a", "u", 2))
	ended, end := context.WithCancel(t.Context())
	end()
	q := take(t, c)
	require.Error(t, q.Each(ended, func(Event[*thing]) error { return nil }))
	q.Fail(errNo)
	assert.Equal(t, 1, c.Stats().Delayed)
	remove(t, c, at("a", "u", 3))
	assert.Nil(t, next(t, c))
	assert.Zero(t, c.Stats().Delayed)
}
