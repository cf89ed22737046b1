package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errNo = errors.New("no")

// upTo returns a function for Each that fails with err on the event of a version.
func upTo(version string, err error) func(Event[*thing]) error {
	return func(e Event[*thing]) error {
		if e.Object.version == version {
			return err
		}
		return nil
	}
}

// four returns a collection in which four events of a wait, and one of b behind them.
func four(t *testing.T, opts ...Option) *Collection[*thing] {
	c := newThings(opts...)
	for i := range 4 {
		require.NoError(t, c.Add(at("a", "u", i+1)))
	}
	require.NoError(t, c.Add(at("b", "v", 5)))
	return c
}

func TestWaysToSettle(t *testing.T) {
	for name, row := range map[string]struct {
		settle  func(t *testing.T, q *Queue[*thing])
		next    string   // the key that comes next
		left    []string // of a
		attempt int      // of a, when it comes again
		delayed int
	}{
		"Done": {settle: func(_ *testing.T, q *Queue[*thing]) { q.Done() }, next: "b"},
		"Fail": {settle: func(_ *testing.T, q *Queue[*thing]) { q.Fail(errNo) },
			next: "b", left: []string{"+1", "1>2", "2>3", "3>4"}, attempt: 2, delayed: 1},
		"Release": {settle: func(_ *testing.T, q *Queue[*thing]) { q.Release() },
			next: "a", left: []string{"+1", "1>2", "2>3", "3>4"}, attempt: 1},
		"Fail for good": {settle: func(_ *testing.T, q *Queue[*thing]) { q.Fail(fmt.Errorf("wrapped: %w", Permanent(errNo))) }, next: "b"},
		"Each, then Fail": {settle: func(t *testing.T, q *Queue[*thing]) { q.Fail(q.Each(t.Context(), upTo("3", errNo))) },
			next: "b", left: []string{"2>3", "3>4"}, attempt: 2, delayed: 1},
		"Each, then Fail for good": {settle: func(t *testing.T, q *Queue[*thing]) { q.Fail(q.Each(t.Context(), upTo("3", Permanent(errNo)))) },
			next: "b", left: []string{"3>4"}, attempt: 1},
		"Each, then Fail for good on the last": {settle: func(t *testing.T, q *Queue[*thing]) { q.Fail(q.Each(t.Context(), upTo("4", Permanent(errNo)))) }, next: "b"},
		"Each, then Release": {settle: func(t *testing.T, q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("3", errNo)); q.Release() },
			next: "a", left: []string{"2>3", "3>4"}, attempt: 1},
		"Each to the end, then Fail": {settle: func(t *testing.T, q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("9", nil)); q.Fail(errNo) }, next: "b"},
		"twice":                      {settle: func(_ *testing.T, q *Queue[*thing]) { q.Done(); q.Release(); q.Fail(errNo) }, next: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := four(t)
				defer c.Close()
				row.settle(t, take(t, c))
				assert.Equal(t, row.delayed, c.Stats().Delayed)
				q := take(t, c)
				require.Equal(t, row.next, q.Key().Name)
				if row.next == "b" {
					q.Done()
					if row.left == nil {
						assert.Zero(t, c.Len())
						return
					}
					var err error
					q, err = c.Take(t.Context())
					require.NoError(t, err)
				}
				assert.Equal(t, row.left, words(collect(q)))
				assert.Equal(t, row.attempt, q.Attempt())
			})
		})
	}
}

func TestNewsKeepTheirPlaceWhateverHappensToWhatIsOut(t *testing.T) {
	for name, row := range map[string]struct {
		settle func(q *Queue[*thing])
		next   string
	}{
		"Done":            {func(q *Queue[*thing]) { q.Done() }, "b"},
		"Fail":            {func(q *Queue[*thing]) { q.Fail(errNo) }, "b"},
		"Fail for good":   {func(q *Queue[*thing]) { q.Fail(Permanent(errNo)) }, "b"},
		"Release":         {func(q *Queue[*thing]) { q.Release() }, "a"},
		"Each to the end": {func(q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("9", nil)); q.Release() }, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			c := four(t)
			q := take(t, c)
			require.NoError(t, c.Update(at("a", "u", 6)))
			row.settle(q)
			assert.Equal(t, row.next, take(t, c).Key().Name)
			assert.NotZero(t, c.Stats().Waiting)
			c.Close()
		})
	}
}

func TestSuccessEndsTheCountOfFailures(t *testing.T) {
	for name, settle := range map[string]func(q *Queue[*thing]){
		"Done":          func(q *Queue[*thing]) { q.Done() },
		"Fail for good": func(q *Queue[*thing]) { q.Fail(Permanent(errNo)) },
		"one by one":    func(q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("9", nil)); q.Fail(errNo) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings()
				defer c.Close()
				require.NoError(t, c.Add(at("a", "u", 1)))
				take(t, c).Fail(errNo)
				q, err := c.Take(t.Context())
				require.NoError(t, err)
				require.NoError(t, c.Update(at("a", "u", 2)))
				settle(q)
				assert.Equal(t, 1, take(t, c).Attempt())
			})
		})
	}
}

func TestWhatComesAfterAGivenUpEventHasNotFailed(t *testing.T) {
	c := four(t, WithBackoff(time.Hour, time.Hour))
	defer c.Close()
	take(t, c).Fail(errNo)
	releaseAll(c)
	take(t, c).Done() // b
	q := take(t, c)
	assert.Equal(t, 2, q.Attempt())
	q.Fail(q.Each(t.Context(), upTo("3", Permanent(errNo))))
	assert.Equal(t, 1, take(t, c).Attempt())
}

func TestPermanentErrors(t *testing.T) {
	assert.NoError(t, Permanent(nil))
	err := Permanent(errNo)
	assert.EqualError(t, err, "no")
	assert.ErrorIs(t, err, errNo)
	assert.True(t, IsPermanent(err))
	assert.True(t, IsPermanent(fmt.Errorf("wrapped: %w", err)))
	assert.True(t, IsPermanent(errors.Join(err, err)))
	assert.True(t, IsPermanent(&PanicError{Value: err}))
	assert.False(t, IsPermanent(errors.Join(err, errNo)), "one of them may go away")
	assert.False(t, IsPermanent(errNo))
	assert.False(t, IsPermanent(nil))
	assert.False(t, IsPermanent(&DrainError{}), "it wraps nothing")
	assert.EqualError(t, &HandlerError{Key: key("a"), Attempt: 1, Err: err}, `handling "a" failed for good (attempt 1): no`)
}

func TestPutBackQueueOfTheFirstListHoldsUpSyncedAndAFailureDoesNot(t *testing.T) {
	for name, row := range map[string]struct {
		settle func(q *Queue[*thing])
		synced bool
	}{
		"Release":       {func(q *Queue[*thing]) { q.Release() }, false},
		"Fail":          {func(q *Queue[*thing]) { q.Fail(errNo) }, true},
		"Fail for good": {func(q *Queue[*thing]) { q.Fail(Permanent(errNo)) }, true},
		"Done":          {func(q *Queue[*thing]) { q.Done() }, true},
		"all by Each":   {func(q *Queue[*thing]) { _ = q.Each(t.Context(), upTo("9", nil)); q.Release() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newThings(WithBackoff(time.Hour, time.Hour))
			defer c.Close()
			require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
			row.settle(take(t, c))
			assert.Equal(t, row.synced, isClosed(c.Synced()))
			_ = c.Update(at("a", "u", 2))
			take(t, c).Done()
			assert.True(t, isClosed(c.Synced()))
		})
	}
}

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
		for range c.Consume(t.Context()) {
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
	"Oldest, then Release": func(t *testing.T, c *Collection[*thing]) {
		q := take(t, c)
		oldest(q)
		q.Release()
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
		for range c.Consume(ctx) {
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
