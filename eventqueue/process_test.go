package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
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
		"panic":           {func() error { panic("ouch") }, `handling "a" failed (attempt 1): panic on "a": ouch`, nil},
		"panic of error":  {func() error { panic(errNo) }, `handling "a" failed (attempt 1): panic on "a": no`, errNo},
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
			take(t, c).handle(ctx, func(context.Context, *Queue[*thing]) error {
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
	q.Release()

	ctx, cancel := context.WithCancel(t.Context())
	c.Process(ctx, 1, func(context.Context, *Queue[*thing]) error {
		cancel()
		return errNo
	}, nil)
	assert.Equal(t, 1, c.Stats().Delayed, "another failure is one, whenever it comes")
	assert.True(t, isClosed(c.Synced()))
}

// The report names a back-off, which the end of the context must not take back.
func TestReportedFailureCountsAlthoughTheContextEndsMeanwhile(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	ctx, cancel := context.WithCancel(t.Context())
	c.Process(ctx, 1, func(context.Context, *Queue[*thing]) error { return context.Canceled }, func(context.Context, *HandlerError) { cancel() })
	pending := c.Pending(1)
	require.Len(t, pending, 1)
	assert.Equal(t, 1, pending[0].Failures)
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
				Add(c, store.Key{Name: "a"})
				pass(time.Hour)
				assert.Equal(t, 1, calls)
				assert.EqualValues(t, 1, c.Stats().GivenUp)
				assert.Zero(t, c.Len())
			})
		})
	}
}

func TestHandlerErrorHasTheVersionOfTheObjectThatItIsAbout(t *testing.T) {
	no := errors.New("no")
	for _, row := range []struct {
		name   string
		handle func(context.Context, *Queue[*thing]) error
		want   string
	}{
		{"the first event", func(context.Context, *Queue[*thing]) error { return no }, "1"},
		{"a panic", func(context.Context, *Queue[*thing]) error { panic("ouch") }, "1"},
		{"the second of two", failingAt("2", no), "2"},
		{"the second, for good", failingAt("2", Permanent(no)), "2"},
		{"after all of them", func(ctx context.Context, q *Queue[*thing]) error {
			return errors.Join(q.Each(ctx, func(Event[*thing]) error { return nil }), no)
		}, "2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newThings()
			defer c.Close()
			require.NoError(t, c.Add(at("a", "u", 1)))
			require.NoError(t, c.Update(at("a", "u", 2)))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var reported []string
			c.Process(ctx, 1, row.handle, func(_ context.Context, err *HandlerError) {
				reported = append(reported, err.ResourceVersion)
				stop()
			})
			assert.Equal(t, []string{row.want}, reported)
		})
	}
}

// failingAt returns a handler that fails on a version.
func failingAt(version string, err error) func(context.Context, *Queue[*thing]) error {
	return func(ctx context.Context, q *Queue[*thing]) error {
		return q.Each(ctx, func(e Event[*thing]) error {
			if e.Object.version == version {
				return err
			}
			return nil
		})
	}
}

// TestProcessEachTellsEveryEventOnceInOrder has handlers that fail in every way; what they
// accept must be all there was.
func TestProcessEachTellsEveryEventOnceInOrder(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c := newThings(WithBackoff(time.Millisecond, time.Second))
			defer c.Close()
			said := &history{policy{}, map[store.Key][]*thing{}}
			defer c.cache.Follow(said)()

			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 1))
			told := map[store.Key][]*thing{}
			var failures atomic.Int64
			handle := func(_ context.Context, e Event[*thing]) error {
				mu.Lock()
				defer mu.Unlock()
				switch random.IntN(6) {
				case 0:
					return errors.New("no")
				case 1:
					panic("ouch")
				case 2:
					exit()
				}
				told[e.Key] = append(told[e.Key], e.Object)
				return nil
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				c.ProcessEach(ctx, 3, handle, func(context.Context, *HandlerError) { failures.Add(1) })
			})
			keys := rand.New(rand.NewPCG(seed, 2))
			for version := range 300 {
				o := at(string(rune('a'+keys.IntN(4))), []string{"u", "v"}[version%2], version+1)
				require.NoError(t, c.Add(o))
				if version%7 == 0 {
					<-time.After(time.Millisecond)
				}
			}
			<-time.After(time.Hour)
			stop()
			running.Wait()
			assert.Zero(t, c.Len())
			assert.Positive(t, failures.Load())
			assert.Equal(t, said.all, told)
		})
	}
}

// unruly is an error whose method panics.
type unruly struct{ error }

func (unruly) Is(error) bool { panic("from Is") }

// A panic that leaves the loop of a single worker reaches the caller, who may recover it.
func TestPanicOfAMethodOfAnErrorReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		defer c.Close()
		require.NoError(t, c.Add(at("a", "u", 1)))
		ctx, cancel := context.WithCancel(t.Context())
		assert.PanicsWithValue(t, "from Is", func() {
			c.ProcessEach(ctx, 1, func(context.Context, Event[*thing]) error {
				cancel()
				return unruly{errNo}
			}, nil)
		})
	})
}
