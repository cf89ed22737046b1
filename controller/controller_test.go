package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lineKey is the first word: the rest may change.
func lineKey(s string) (store.Key, error) {
	name, _, _ := strings.Cut(s, " ")
	return store.Key{Name: name}, nil
}

func newLines(opts ...eventqueue.Option) *eventqueue.Collection[string] {
	return eventqueue.New(lineKey, append(opts, eventqueue.WithCompaction(eventqueue.KeepAll), eventqueue.WithBackoff(time.Second, time.Second))...)
}

// feed is a feed of strings: it puts them into a collection, and ends with ctx or,
// if it has an error, at once.
type feed struct {
	into  *eventqueue.Collection[string]
	lines []string
	err   error
}

func (f *feed) Run(ctx context.Context) error {
	if err := f.into.Replace(f.lines, "1"); err != nil {
		return err
	}
	if f.err != nil {
		return f.err
	}
	<-ctx.Done()
	return nil
}

// start runs a controller until the returned function is called, which waits for
// its end.
func start(t *testing.T, c *Controller[string]) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- c.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

func TestHandlerGetsWhatTheFeedBrings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		var got []string
		c := New((&feed{into: lines, lines: []string{"a", "b"}}).Run, lines, Each(func(_ context.Context, e eventqueue.Event[string]) error {
			got = append(got, e.Type.String()+" "+e.Object)
			return nil
		}))
		stop := start(t, c)
		<-c.Synced()
		require.NoError(t, lines.Delete("a"))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"Addition a", "Addition b", "Deletion a"}, got)
	})
}

func TestHandlerThatWritesItsObjectAndFailsBacksOff(t *testing.T) {
	for name, wait := range map[string]time.Duration{"its event comes during the call": time.Millisecond, "its event comes after the call": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := eventqueue.New(lineKey, eventqueue.WithBackoff(10*time.Second, time.Minute))
				written := make(chan struct{}, 1)
				calls := 0
				c := New(func(ctx context.Context) error {
					_ = lines.Replace([]string{"a"}, "1")
					for ctx.Err() == nil {
						select {
						case <-written:
							if wait == 0 {
								<-time.After(time.Second)
							}
							_ = lines.Update("a")
						case <-ctx.Done():
						}
					}
					return nil
				}, lines, func(context.Context, *eventqueue.Queue[string]) error {
					calls++
					written <- struct{}{}
					<-time.After(wait)
					return errors.New("ouch")
				})
				stop := start(t, c)
				<-time.After(time.Minute)
				assert.GreaterOrEqual(t, calls, 3)
				assert.LessOrEqual(t, calls, 12, "twice in 5, 10, 20 and 30 seconds at least")
				require.Error(t, stop())
			})
		})
	}
}

func TestFailuresAreReportedAndRetried(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("ouch") },
		"panic": func() error { panic("ouch") },
		"exit":  func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := newLines()
				core, logs := observer.New(zap.ErrorLevel)
				var failures []*eventqueue.HandlerError
				done := make(chan struct{})
				c := New((&feed{into: lines, lines: []string{"a", "b"}}).Run, lines, func(_ context.Context, q *eventqueue.Queue[string]) error {
					if q.Key().Name == "a" && q.Attempt() < 3 {
						return fail()
					}
					if q.Key().Name == "a" {
						close(done)
					}
					return nil
				}, WithLogger(zap.New(core)), WithErrorHandler(func(_ context.Context, err error) {
					var failure *eventqueue.HandlerError
					if errors.As(err, &failure) {
						failures = append(failures, failure)
					}
				}))
				stop := start(t, c)
				<-done
				require.NoError(t, stop())
				require.Len(t, failures, 2)
				assert.Equal(t, store.Key{Name: "a"}, failures[0].Key)
				assert.Equal(t, 2, failures[1].Attempt)
				assert.ErrorContains(t, failures[0], `handling "a" failed (attempt 1): `)
				var panicked *eventqueue.PanicError
				assert.Equal(t, name != "error", errors.As(failures[0], &panicked))
				if panicked != nil {
					assert.Equal(t, store.Key{Name: "a"}, panicked.Key)
					assert.Contains(t, string(panicked.Stack), "controller_test.go")
					assert.EqualValues(t, 2, lines.Stats().Panics)
				}
				assert.Equal(t, name == "exit", errors.Is(failures[0], eventqueue.ErrAbandoned))
				assert.Equal(t, 2, logs.Len())
				stack, _ := logs.All()[0].ContextMap()["handlerStack"].(string)
				assert.Equal(t, name != "error", strings.Contains(stack, "controller_test.go"))
			})
		})
	}
}

func TestPermanentErrorsAreReportedAndNotRetried(t *testing.T) {
	never := errors.New("never")
	for name, handler := range map[string]Handler[string]{
		"queue": func(_ context.Context, q *eventqueue.Queue[string]) error { return eventqueue.Permanent(never) },
		"event": Each(func(_ context.Context, e eventqueue.Event[string]) error { return eventqueue.Permanent(never) }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := newLines()
				core, logs := observer.New(zap.ErrorLevel)
				var failures []error
				c := New((&feed{into: lines, lines: []string{"a"}}).Run, lines, handler, WithLogger(zap.New(core)),
					WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
				stop := start(t, c)
				<-c.Synced()
				<-time.After(time.Hour)
				synctest.Wait()
				require.Len(t, failures, 1)
				assert.ErrorIs(t, failures[0], never)
				assert.EqualError(t, failures[0], `handling "a" failed for good (attempt 1): never`)
				assert.Equal(t, true, logs.All()[0].ContextMap()["final"])
				require.NoError(t, lines.Update("a changed"))
				synctest.Wait()
				assert.Len(t, failures, 2, "something happened to the object")
				require.NoError(t, stop(), "nothing is left")
			})
		})
	}
}

func TestEventsAfterAPermanentErrorAreHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		require.NoError(t, lines.Add("a"))
		require.NoError(t, lines.Delete("a"))
		require.NoError(t, lines.Add("b"))
		var got []string
		reported := 0
		c := New((&feed{into: lines, lines: []string{"b changed"}}).Run, lines, Each(func(_ context.Context, e eventqueue.Event[string]) error {
			got = append(got, e.Type.String()+" "+e.Object)
			if e.Type == eventqueue.Addition {
				return eventqueue.Permanent(errors.New("never"))
			}
			return nil
		}), WithErrorHandler(func(context.Context, error) { reported++ }))
		stop := start(t, c)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"Addition a", "Addition b", "Deletion a", "Modification b changed"}, got)
		assert.Equal(t, 2, reported)
	})
}

func TestNewsAreHandledBeforeTheFirstListUnlessToldNotTo(t *testing.T) {
	for want, opts := range map[string][]eventqueue.Option{
		"a x y b c d": nil,
		"a b c d x y": {eventqueue.WithPriority(false)},
	} {
		synctest.Test(t, func(t *testing.T) {
			lines := newLines(opts...)
			var got []string
			c := New((&feed{into: lines, lines: []string{"a", "b", "c", "d"}}).Run, lines, func(_ context.Context, q *eventqueue.Queue[string]) error {
				<-time.After(time.Second)
				got = append(got, q.Key().Name)
				return nil
			})
			stop := start(t, c)
			synctest.Wait()
			require.NoError(t, lines.Add("x"))
			require.NoError(t, lines.Add("y"))
			require.NoError(t, stop())
			assert.Equal(t, want, strings.Join(got, " "))
		})
	}
}

func TestStopEndsTheFeedFirstAndThenDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		var got []string
		c := New((&feed{into: lines, lines: []string{"a", "b", "c"}}).Run, lines, func(ctx context.Context, q *eventqueue.Queue[string]) error {
			<-time.After(time.Second)
			got = append(got, q.Key().Name)
			return ctx.Err()
		})
		stop := start(t, c)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"a", "b", "c"}, got, "nothing of what was queued is dropped")
	})
}

func TestStopReportsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		c := New((&feed{into: lines, lines: []string{"a", "b"}}).Run, lines, func(ctx context.Context, q *eventqueue.Queue[string]) error {
			<-ctx.Done()
			return ctx.Err()
		}, WithDrainTimeout(time.Minute))
		stop := start(t, c)
		synctest.Wait()
		before := time.Now()
		err := stop()
		assert.Equal(t, time.Minute, time.Since(before))
		var left *eventqueue.DrainError
		require.ErrorAs(t, err, &left)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, left.Pending, 2)
	})
}

func TestRunAgainGoesOnWithWhatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		healthy := false
		var got []string
		from := &feed{into: lines, lines: []string{"a"}}
		c := New(from.Run, lines, func(_ context.Context, q *eventqueue.Queue[string]) error {
			if !healthy {
				return errors.New("not yet")
			}
			for event := range q.Events() {
				got = append(got, event.Type.String())
			}
			return nil
		})
		stop := start(t, c)
		synctest.Wait()
		assert.ErrorIs(t, c.Run(t.Context()), ErrRunning)
		require.Error(t, stop())
		healthy, from.lines = true, []string{"a changed"}
		stop = start(t, c)
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Equal(t, []string{"Addition", "Modification"}, got, "what was left, and what the feed said since")
	})
}

func TestFeedThatFailsEndsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		broken := errors.New("broken")
		handled := 0
		c := New((&feed{into: lines, lines: []string{"a"}, err: broken}).Run, lines, func(context.Context, *eventqueue.Queue[string]) error {
			handled++
			return nil
		})
		assert.ErrorIs(t, c.Run(t.Context()), broken)
		assert.Equal(t, 1, handled, "what it brought is handled")
	})
}

func TestDeadlineIsCheckedBetweenTheEventsOfAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		for i := range 1000 {
			require.NoError(t, lines.Add(fmt.Sprint("a ", i)))
		}
		reported := 0
		c := New((&feed{into: lines, lines: []string{"a"}}).Run, lines, Each(func(context.Context, eventqueue.Event[string]) error {
			<-time.After(time.Second)
			return nil
		}), WithDrainTimeout(time.Minute), WithErrorHandler(func(context.Context, error) { reported++ }))
		stop := start(t, c)
		synctest.Wait()
		before := time.Now()
		var left *eventqueue.DrainError
		require.ErrorAs(t, stop(), &left)
		assert.LessOrEqual(t, time.Since(before), time.Minute+time.Second)
		assert.Zero(t, reported, "to be told to end is no failure")
	})
}

func TestRunReturnsAfterTheLastCallOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		ended := false
		c := New((&feed{into: lines, lines: []string{"a"}}).Run, lines, func(context.Context, *eventqueue.Queue[string]) error {
			<-time.After(time.Hour) // whatever its context says
			ended = true
			return nil
		})
		stop := start(t, c)
		synctest.Wait()
		assert.NoError(t, stop(), "nothing is left")
		assert.True(t, ended)
	})
}

func TestErrorHookThatPanicsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines, calls := newLines(), 0
		core, logs := observer.New(zap.ErrorLevel)
		c := New((&feed{into: lines, lines: []string{"a"}}).Run, lines, func(context.Context, *eventqueue.Queue[string]) error {
			calls++
			return eventqueue.Permanent(errors.New("bad"))
		}, WithLogger(zap.New(core)), WithErrorHandler(func(context.Context, error) { panic("ouch") }))
		stop := start(t, c)
		<-time.After(time.Minute)
		assert.NoError(t, stop())
		assert.Equal(t, 1, calls, "final all the same")
		assert.Equal(t, 1, logs.FilterMessage("error handler panicked").Len())
	})
}

func TestClosedCollectionEndsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		c := New((&feed{into: lines, lines: []string{"a"}}).Run, lines, func(context.Context, *eventqueue.Queue[string]) error { return nil })
		result := make(chan error, 1)
		go func() { result <- c.Run(t.Context()) }()
		synctest.Wait()
		lines.Close()
		assert.ErrorIs(t, <-result, eventqueue.ErrClosed)
	})
}

func TestCollectionThatClosesDuringAHoldEndsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newLines()
		c := New((&feed{into: lines, lines: []string{"a"}}).Run, lines, func(_ context.Context, q *eventqueue.Queue[string]) error {
			q.Hold(make(chan struct{}))
			return nil
		})
		result := make(chan error, 1)
		go func() { result <- c.Run(t.Context()) }()
		synctest.Wait()
		lines.Close()
		synctest.Wait()
		select {
		case err := <-result:
			assert.ErrorIs(t, err, eventqueue.ErrClosed)
		default:
			assert.Fail(t, "Run did not return")
		}
	})
}

func TestCollectionThatClosesDuringACallEndsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines, release := newLines(), make(chan struct{})
		c := New((&feed{into: lines, lines: []string{"a"}}).Run, lines, func(context.Context, *eventqueue.Queue[string]) error {
			<-release
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- c.Run(ctx) }()
		synctest.Wait()
		lines.Close()
		cancel()
		synctest.Wait() // Run waits for the call
		close(release)
		assert.ErrorIs(t, <-result, eventqueue.ErrClosed)
	})
}

func TestWorkers(t *testing.T) {
	for n, want := range map[int]int{0: 1, 1: 1, 2: 2, 9: 3} {
		synctest.Test(t, func(t *testing.T) {
			lines := newLines()
			release := make(chan struct{})
			running := make(chan struct{}, 3)
			c := New((&feed{into: lines, lines: []string{"a", "b", "c"}}).Run, lines, func(context.Context, *eventqueue.Queue[string]) error {
				running <- struct{}{}
				<-release
				return nil
			}, WithWorkers(n))
			stop := start(t, c)
			synctest.Wait()
			assert.Len(t, running, want, "%d workers", n)
			close(release)
			require.NoError(t, stop())
		})
	}
}

func TestIncompleteControllersSaySo(t *testing.T) {
	lines := newLines()
	handler := Each(func(context.Context, eventqueue.Event[string]) error { return nil })
	for _, c := range []*Controller[string]{
		New(nil, lines, handler), New((&feed{}).Run, nil, handler), New((&feed{}).Run, lines, nil), New((&feed{}).Run, lines, Each[string](nil)),
	} {
		assert.ErrorIs(t, c.Run(t.Context()), ErrIncomplete)
		_ = c.Synced()
	}
}

func TestHardStopEndsRunningAndDrainingWork(t *testing.T) {
	for _, name := range []string{"running", "finishing", "running, by its cause"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := newLines()
				var causes []error
				c := New((&feed{into: lines, lines: []string{"a", "b"}}).Run, lines, func(ctx context.Context, _ *eventqueue.Queue[string]) error {
					<-ctx.Done()
					causes = append(causes, context.Cause(ctx))
					return ctx.Err()
				}, WithDrainTimeout(time.Hour))
				running, end := context.WithCancelCause(t.Context())
				defer end(nil)
				outer, stopOuter := HardStopContext(running)
				defer stopOuter()
				inner, stopInner := HardStopContext(outer)
				defer stopInner()
				result := make(chan error, 1)
				go func() { result <- c.Run(inner) }()
				synctest.Wait()
				if name == "finishing" {
					end(nil)
					<-time.After(time.Minute)
					assert.Empty(t, causes, "it has time to finish")
				}
				before := time.Now()
				if name == "running, by its cause" {
					end(ErrStopNow)
				} else {
					stopOuter()
				}
				var left *eventqueue.DrainError
				require.ErrorAs(t, <-result, &left)
				assert.Zero(t, time.Since(before))
				assert.Equal(t, []error{ErrStopNow}, causes)
				assert.Equal(t, ErrStopNow, left.Cause)
				assert.Len(t, left.Pending, 2)
			})
		})
	}
}

func TestRunAfterAHardStopBeginsNoCall(t *testing.T) {
	for range 100 {
		lines := newLines()
		require.NoError(t, lines.Add("a"))
		ctx, hardStop := HardStopContext(t.Context())
		hardStop()
		var left *eventqueue.DrainError
		require.ErrorAs(t, New((&feed{into: lines, lines: []string{"b"}}).Run, lines, func(context.Context, *eventqueue.Queue[string]) error {
			assert.Fail(t, "a call begins")
			return nil
		}).Run(ctx), &left)
		assert.NotEmpty(t, left.Pending)
	}
}

func TestHardStopIsTheCauseOfTheEnd(t *testing.T) {
	ctx, hardStop := HardStopContext(t.Context())
	require.NoError(t, ctx.Err())
	hardStop()
	assert.Equal(t, ErrStopNow, context.Cause(ctx))
}

func TestHardStoppedReachesDrainingMembers(t *testing.T) {
	assert.Nil(t, HardStopped(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	ctx, hardStop := HardStopContext(ended)
	cancel()
	select {
	case <-HardStopped(ctx):
		assert.Fail(t, "there is time to finish")
	default:
	}
	hardStop()
	<-HardStopped(ctx)
	assert.ErrorIs(t, context.Cause(ctx), context.Canceled, "which says nothing of it")
}
