package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func exit() { runtime.Goexit() }

// processing runs Process until the returned function is called, which waits for
// its end.
func processing(t *testing.T, c *Collection[*thing], workers int, fn func(context.Context, *Queue[*thing]) error) (stop func()) {
	return processingReported(t, c, workers, fn, nil)
}

func processingReported(t *testing.T, c *Collection[*thing], workers int, fn func(context.Context, *Queue[*thing]) error, report func(context.Context, *HandlerError)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Process(ctx, workers, fn, report)
	}()
	return func() { cancel(); <-done }
}

func TestProcessRetriesWhatFails(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":  func() error { return errors.New("no") },
		"panic":  func() error { panic("ouch") },
		"Goexit": func() error { exit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings()
				require.NoError(t, c.Replace([]*thing{at("a", "u", 1), at("b", "u", 1)}, "1"))
				var done []string
				stop := processing(t, c, 1, func(_ context.Context, q *Queue[*thing]) error {
					if q.Attempt() < 3 {
						return fail()
					}
					done = append(done, q.Key().Name)
					return nil
				})
				<-time.After(time.Minute)
				stop()
				assert.ElementsMatch(t, []string{"a", "b"}, done)
				assert.Zero(t, c.Len())
			})
		})
	}
}

func TestProcessWorksKeysInParallelAndOneKeyInSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		for i := range 3 {
			require.NoError(t, c.Add(at(fmt.Sprint(i), "u", i+1)))
		}
		var running, most atomic.Int32
		release := make(chan struct{})
		stop := processing(t, c, 5, func(context.Context, *Queue[*thing]) error {
			most.Store(max(most.Load(), running.Add(1)))
			<-release
			running.Add(-1)
			return nil
		})
		synctest.Wait()
		for i := range 3 {
			require.NoError(t, c.Update(at(fmt.Sprint(i), "u", i+10)))
		}
		synctest.Wait()
		assert.EqualValues(t, 3, running.Load(), "five workers, three keys")
		close(release)
		synctest.Wait()
		stop()
		assert.EqualValues(t, 3, most.Load())
		assert.Zero(t, c.Len())
	})
}

func TestReportingTellsOfEveryWayToFail(t *testing.T) {
	for name, tc := range map[string]struct {
		fail func() error
		text string
		is   error
	}{
		"error":           {func() error { return errNo }, `handling "a" failed (attempt 1): no`, errNo},
		"panic":           {func() error { panic("ouch") }, `handling "a" failed (attempt 1): handler panicked on "a": ouch`, nil},
		"panic of error":  {func() error { panic(errNo) }, `handling "a" failed (attempt 1): handler panicked on "a": no`, errNo},
		"Goexit":          {func() error { exit(); return nil }, `handling "a" failed (attempt 1): handler ended by runtime.Goexit on "a"`, ErrAbandoned},
		"permanent error": {func() error { return Permanent(errNo) }, `handling "a" failed for good (attempt 1): no`, errNo},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings()
				require.NoError(t, c.Add(at("a", "u", 1)))
				var reports []*HandlerError
				stop := processingReported(t, c, 1, func(_ context.Context, q *Queue[*thing]) error {
					if q.Attempt() == 1 {
						return tc.fail()
					}
					return nil
				}, func(_ context.Context, err *HandlerError) { reports = append(reports, err) })
				<-time.After(time.Minute)
				stop()
				require.Len(t, reports, 1)
				assert.ErrorContains(t, reports[0], tc.text)
				if tc.is != nil {
					assert.ErrorIs(t, reports[0], tc.is)
				}
				if p, ok := errors.AsType[*PanicError](reports[0]); ok {
					assert.Equal(t, key("a"), p.Key)
					assert.Contains(t, string(p.Stack), "process_test.go", "where it happened")
					assert.NotContains(t, p.Error(), "process_test.go", "the stack is not for messages")
					assert.EqualValues(t, 1, c.Stats().Panics)
				}
				assert.Zero(t, c.Len())
			})
		})
	}
}

func TestReportingThatPanicsIsAFailureToo(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":  func() error { return errNo },
		"Goexit": func() error { exit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings()
				require.NoError(t, c.Add(at("a", "u", 1)))
				stop := processingReported(t, c, 1, func(context.Context, *Queue[*thing]) error { return fail() },
					func(context.Context, *HandlerError) { panic("hook") })
				synctest.Wait()
				assert.Equal(t, 1, c.Stats().Delayed)
				stop()
				c.Close()
			})
		})
	}
}

func TestReportingSaysNothingOfTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		end     func(*Collection[*thing], context.CancelCauseFunc)
		err     error
		reports int
	}{
		"the context's":            {func(_ *Collection[*thing], cancel context.CancelCauseFunc) { cancel(nil) }, context.Canceled, 0},
		"the context's cause":      {func(_ *Collection[*thing], cancel context.CancelCauseFunc) { cancel(errNo) }, errNo, 0},
		"another error at the end": {func(_ *Collection[*thing], cancel context.CancelCauseFunc) { cancel(nil) }, errNo, 1},
		"the collection's":         {func(c *Collection[*thing], _ context.CancelCauseFunc) { c.Close() }, ErrClosed, 0},
		"another collection's":     {func(*Collection[*thing], context.CancelCauseFunc) {}, ErrClosed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newThings()
			defer c.Close()
			require.NoError(t, c.Add(at("a", "u", 1)))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			reports := 0
			take(t, c).process(ctx, func(context.Context, *Queue[*thing]) error {
				tc.end(c, cancel)
				return tc.err
			}, func(context.Context, *HandlerError) { reports++ })
			assert.Equal(t, tc.reports, reports)
		})
	}
}

func TestWhatTheEndInterruptsHasNotFailed(t *testing.T) {
	c := newThings()
	must(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
	for _, cause := range []error{nil, errors.New("time is over")} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c.Process(ctx, 1, func(ctx context.Context, q *Queue[*thing]) error {
			cancel(cause)
			return q.Each(ctx, func(Event[*thing]) error { t.Error("it has ended"); return nil })
		}, nil)
		assert.Zero(t, c.Stats().Delayed)
		assert.False(t, isClosed(c.Synced()), "nobody was told of anything")
	}
	q, err := c.Take(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, q.Attempt())
	q.Requeue()

	ctx, cancel := context.WithCancel(t.Context())
	c.Process(ctx, 1, func(context.Context, *Queue[*thing]) error {
		cancel()
		return errNo
	}, nil)
	assert.Equal(t, 1, c.Stats().Delayed, "another failure is one, whenever it comes")
	assert.True(t, isClosed(c.Synced()))
}

func TestDrainWaitsForWhatIsReadyAndOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		for i := range 5 {
			require.NoError(t, c.Add(at(fmt.Sprint(i), "u", i+1)))
		}
		done := 0
		stop := processing(t, c, 1, func(context.Context, *Queue[*thing]) error {
			<-time.After(time.Second)
			done++
			return nil
		})
		assert.NoError(t, c.Drain(t.Context()))
		assert.Equal(t, 5, done)
		stop()
	})
}

func TestDrainWaitsForTheLastOneThatIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		q := take(t, c)
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(t.Context()) }()
		synctest.Wait()
		assert.Empty(t, drained, "nothing is ready, but something is out")
		q.Done()
		assert.NoError(t, <-drained)
	})
}

func TestDrainEndsWithTheCollectionOrWhenNothingIsLeft(t *testing.T) {
	for name, end := range map[string]func(*Collection[*thing]) error{
		"closed":      func(c *Collection[*thing]) error { c.Close(); return nil },
		"merged away": func(c *Collection[*thing]) error { return c.Delete(at("b", "v", 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := synced(t, WithCompaction(KeepLatest)) // so that events go into the buffer while no Drain runs
				require.NoError(t, c.Add(at("b", "v", 2)))
				drained := make(chan error, 1)
				go func() { drained <- c.Drain(t.Context()) }()
				synctest.Wait()
				require.NoError(t, end(c))
				assert.NoError(t, <-drained)
				assert.True(t, c.isClosed() || c.eager.Load() == 0, "no Drain runs any more")
			})
		})
	}
}

func TestDrainReportsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings(WithBackoff(time.Hour, time.Hour))
		no := errors.New("no")
		require.NoError(t, c.Add(at("bad", "u", 1)))
		stop := processing(t, c, 1, func(_ context.Context, q *Queue[*thing]) error {
			if q.Key().Name == "bad" {
				return no
			}
			<-time.After(time.Hour)
			return nil
		})
		err := c.Drain(t.Context())
		assert.ErrorIs(t, err, no)
		assert.EqualError(t, err, `1 key(s) left undone; "bad": 1 event(s), failed: no`)

		require.NoError(t, c.Add(at("slow", "u", 2)))
		require.NoError(t, c.Add(at("waiting", "u", 3)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = c.Drain(ctx)
		var left *DrainError
		require.ErrorAs(t, err, &left)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		for i := range left.Pending {
			left.Pending[i].Age, left.Pending[i].RetryIn = 0, 0
		}
		assert.Equal(t, []Pending{
			{Key: key("bad"), Events: 1, Failures: left.Pending[0].Failures, Err: no},
			{Key: key("slow"), Events: 1, InFlight: true},
			{Key: key("waiting"), Events: 1},
		}, left.Pending)
		stop()
	})
}

func TestPermanentErrorStaysPermanentHoweverItsReportEnds(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("ouch") }, "Goexit": exit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, calls := newKeys(), 0
				defer c.Close()
				stop := processKeys(t, c, func(*Queue[store.Key]) error {
					calls++
					return Permanent(errNo)
				}, func(*HandlerError) { end() })
				defer stop()
				AddAfter(c, store.Key{Name: "a"}, 0, true)
				pass(time.Hour)
				assert.Equal(t, 1, calls)
				assert.EqualValues(t, 1, c.Stats().GivenUp)
				assert.Zero(t, c.Len())
			})
		})
	}
}
