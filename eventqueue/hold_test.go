package eventqueue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// processKeys handles keys with one worker until stop is called.
func processKeys(t *testing.T, c *Collection[store.Key], fn func(*Queue[store.Key]) error, report func(*HandlerError)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Process(ctx, 1, func(_ context.Context, q *Queue[store.Key]) error { return fn(q) },
			func(_ context.Context, err *HandlerError) { report(err) })
	}()
	return func() { cancel(); <-ended }
}

func TestHeldKeyComesAgainWhenItsHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys(WithBackoff(time.Second, time.Second))
		defer c.Close()
		until, got := make(chan struct{}), ""
		var attempts []int
		stop := processKeys(t, c, func(q *Queue[store.Key]) error {
			got += q.Key().Name
			if q.Key().Name != "a" {
				return nil
			}
			switch attempts = append(attempts, q.Attempt()); len(attempts) {
			case 1:
				return errors.New("ouch")
			case 2:
				q.Hold(until)
			}
			return nil
		}, func(*HandlerError) {})
		defer stop()
		AddAfter(c, store.Key{Name: "a"}, 0, true)
		pass(time.Minute)
		AddAfter(c, store.Key{Name: "a"}, 0, true)
		AddAfter(c, store.Key{Name: "b"}, 0, true)
		pass(time.Minute)
		assert.Equal(t, "aab", got, "other keys go on")
		assert.Equal(t, 1, c.Stats().InFlight)
		close(until)
		require.NoError(t, c.Drain(t.Context()))
		assert.Equal(t, "aaba", got)
		assert.Equal(t, []int{1, 2, 2}, attempts, "a hold is neither a failure nor a success")
		assert.Zero(t, c.Len())
	})
}

func TestHoldEndsWithProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys()
		defer c.Close()
		stop := processKeys(t, c, func(q *Queue[store.Key]) error { q.Hold(make(chan struct{})); return nil }, nil)
		AddAfter(c, store.Key{Name: "a"}, 0, true)
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var left *DrainError
		require.ErrorAs(t, c.Drain(ended), &left)
		assert.True(t, left.Pending[0].InFlight)
		stop()
		require.ErrorAs(t, c.Drain(ended), &left)
		assert.False(t, left.Pending[0].InFlight)
		assert.NoError(t, left.Pending[0].Err)
	})
}

func TestHoldEndsWithTheCollection(t *testing.T) {
	for name, channel := range map[string]func() chan struct{}{
		"a channel": func() chan struct{} { return make(chan struct{}) },
		"nil":       func() chan struct{} { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, until := newKeys(), channel() // in the bubble, so that synctest knows the channel
				defer c.Close()
				AddAfter(c, store.Key{Name: "a"}, 0, true)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.Process(t.Context(), 1, func(_ context.Context, q *Queue[store.Key]) error { q.Hold(until); return nil }, nil)
				}()
				pass(time.Hour)
				assert.Equal(t, 1, c.Stats().InFlight)
				c.Close()
				synctest.Wait()
				assert.True(t, isClosed(ended))
			})
		})
	}
}

func TestHoldOfAFailedQueueHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys(WithBackoff(time.Second, time.Second))
		defer c.Close()
		calls := 0
		stop := processKeys(t, c, func(q *Queue[store.Key]) error {
			q.Hold(make(chan struct{}))
			if calls++; calls == 3 {
				q.Done()
			}
			return errors.New("ouch")
		}, func(*HandlerError) {})
		defer stop()
		AddAfter(c, store.Key{Name: "a"}, 0, true)
		pass(time.Minute)
		assert.Equal(t, 3, calls)
		assert.Zero(t, c.Len())
	})
}

func TestLoopIgnoresHold(t *testing.T) {
	c := newKeys()
	defer c.Close()
	AddAfter(c, store.Key{Name: "a"}, 0, true)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for q := range c.Queues(ctx) {
		q.Hold(make(chan struct{}))
		stop()
	}
	assert.Zero(t, c.Len())
}

func TestReportSaysWhenTheNextTryIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys(WithBackoff(time.Second, time.Minute))
		defer c.Close()
		var due time.Time
		calls := 0
		stop := processKeys(t, c, func(q *Queue[store.Key]) error {
			if calls++; calls > 1 {
				assert.Equal(t, due, time.Now())
			}
			if calls > 5 {
				return Permanent(errors.New("never"))
			}
			return errors.New("not now")
		}, func(err *HandlerError) {
			due = time.Now().Add(err.RetryIn)
			assert.Equal(t, calls <= 5, err.RetryIn > 0)
		})
		defer stop()
		AddAfter(c, store.Key{Name: "a"}, 0, true)
		pass(time.Hour)
		assert.Equal(t, 6, calls)
	})
}

func TestWaitedCountsFromTheEventOrTheEndOfItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys()
		defer c.Close()
		AddAfter(c, store.Key{Name: "a"}, 0, true)
		AddAfter(c, store.Key{Name: "b"}, time.Minute, true)
		pass(time.Hour)
		for _, want := range []time.Duration{time.Hour, time.Hour - time.Minute} {
			q := tryTakeKey(t, c)
			assert.Equal(t, want, q.Waited())
			q.Done()
		}
	})
}
