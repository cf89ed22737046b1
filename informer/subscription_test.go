package informer

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
)

func labelled(p *corev1.Pod, app string) *corev1.Pod {
	p.Labels = map[string]string{"app": app}
	return p
}

func isWeb(p *corev1.Pod) bool { return p.Labels["app"] == "web" }

func TestPredicateOfASubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var all, web diary
		i.Handle(all.funcs())
		i.HandleFiltered(isWeb, web.funcs())
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{labelled(pod("a", "u1", 1), "web"), labelled(pod("b", "u2", 1), "db")}, "1"))
		synctest.Wait()
		for _, p := range []*corev1.Pod{
			labelled(pod("a", "u1", 2), "web"), labelled(pod("a", "u1", 3), "db"), labelled(pod("a", "u1", 4), "db"),
			labelled(pod("b", "u2", 5), "web"), labelled(pod("a", "u1", 6), "web"),
		} {
			require.NoError(t, i.cache.Update(p))
			synctest.Wait()
		}
		require.NoError(t, i.cache.Delete(labelled(pod("b", "u2", 7), "web")))
		synctest.Wait()

		var late diary
		sub := i.HandleFiltered(isWeb, late.funcs())
		<-sub.Synced()
		pulling := i.SubscribeFiltered(isWeb)
		assert.Equal(t, 1, pulling.Lag())
		require.NoError(t, stop())
		assert.Len(t, all.read(), 8)
		assert.Equal(t, []string{"initial a@1", "update a@1>2", "delete a@2", "add b@5", "add a@6", "delete b@7"}, web.read())
		assert.Equal(t, []string{"initial a@6"}, late.read())
	})
}

func TestPanickingPredicateShowsAndHarmsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var other diary
		i.Handle(other.funcs())
		sub := i.HandleFiltered(func(*corev1.Pod) bool { panic("ouch") }, HandlerFuncs[*corev1.Pod]{})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-sub.Synced()
		synctest.Wait()
		assert.EqualValues(t, 1, sub.Stats().PredicateFailures)
		assert.Len(t, other.read(), 1)
		require.NoError(t, stop())
	})
}

func TestBackoffIsPerSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		count := func(calls *int) Handler[*corev1.Pod] {
			return HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
				*calls++
				return errors.New("never")
			})
		}
		var patient, eager int
		i.Handle(count(&patient), WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour)))
		sub := i.Handle(count(&eager), WithQueue(eventqueue.WithBackoff(time.Millisecond, time.Second)))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(time.Minute)
		require.Error(t, stop())
		assert.Equal(t, 1, patient)
		assert.Greater(t, eager, 60)
		assert.EqualValues(t, eager-1, sub.Stats().Retries)
	})
}

func TestLiveEventsGoFirstForThoseWhoWantIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var fifo, live diary
		i.Handle(fifo.funcs())
		i.Handle(live.funcs(), WithQueue(eventqueue.WithPriority(true)))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		require.NoError(t, i.cache.Add(pod("news", "u3", 2)))
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1", "initial b@1", "add news@2"}, fifo.read())
		assert.Equal(t, []string{"add news@2", "initial a@1", "initial b@1"}, live.read())
	})
}

func TestLoggerAndHookOfASubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		common, commonLogs := observer.New(zap.InfoLevel)
		own, ownLogs := observer.New(zap.InfoLevel)
		var failures, ownFailures []error
		hook := func(into *[]error) CommonOption {
			return WithErrorHandler(func(_ context.Context, err error) { *into = append(*into, err) })
		}
		i := newPods(WithLogger(zap.New(common)), hook(&failures))
		failing := HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			return eventqueue.Permanent(errors.New("no"))
		})
		i.Handle(failing, WithName("first"))
		i.Handle(failing, WithName("second"), WithLogger(zap.New(own)), hook(&ownFailures))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		require.NoError(t, stop())
		require.Equal(t, 1, commonLogs.Len())
		assert.Equal(t, "first", commonLogs.All()[0].ContextMap()["subscriber"])
		require.Equal(t, 1, ownLogs.Len())
		assert.Equal(t, "second", ownLogs.All()[0].ContextMap()["subscriber"])
		assert.Len(t, failures, 1)
		assert.Len(t, ownFailures, 1)
	})
}

func TestErrorHookThatPanicsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		server.Inject(reflectortest.Answer(500).On("", "pods").Times(1))
		core, logs := observer.New(zap.ErrorLevel)
		i := newServed(t, server, WithLogger(zap.New(core)), WithErrorHandler(func(context.Context, error) { panic("ouch") }))
		calls := 0
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			calls++
			return eventqueue.Permanent(errors.New("bad"))
		}))
		stop := start(t, i)
		<-time.After(time.Hour)
		require.NoError(t, stop())
		assert.Equal(t, 1, calls, "final all the same")
		assert.Equal(t, 2, logs.FilterMessage("error handler panicked").Len(), "of the reflector and of the handler")
		assert.Equal(t, true, logs.FilterMessage("handler failed").All()[0].ContextMap()["final"])
	})
}

func TestLagIsSaidInNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		sub := i.Subscribe(WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		<-time.After(time.Minute)
		require.NoError(t, i.cache.Update(pod("a", "u1", 2)))
		s := sub.Stats()
		assert.Equal(t, 2, s.Keys)
		assert.Equal(t, 3, s.Events)
		assert.Equal(t, time.Minute, s.Oldest)
		sub.Close()
		assert.Zero(t, sub.Stats().Events)
	})
}

func TestKeepIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var d diary
		sub := i.Handle(d.funcs(), WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
		sub.KeepIf(func(e eventqueue.Event[*corev1.Pod]) bool { return strings.HasSuffix(e.Object.ResourceVersion, "0") })
		for version := 1; version <= 25; version++ {
			require.NoError(t, i.cache.Add(pod("a", "u1", version)))
		}
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"add a@10", "update a@10>20", "update a@20>25"}, d.read())
	})
}

func TestStackOfAPanicIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.ErrorLevel)
		i := newPods(WithLogger(zap.New(core)))
		i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { panic("ouch") }})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		require.NotEmpty(t, logs.All())
		assert.Contains(t, logs.All()[0].ContextMap()["handlerStack"], "subscription_test.go")
		require.Error(t, stop())
	})
}

func TestSyncedIsPerSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		release := make(chan struct{})
		slow := i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			<-release
			return nil
		}))
		failing := i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			return errors.New("for ever")
		}))
		panicking := i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { panic("ouch") }})
		exiting := i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { goruntime.Goexit() }})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		assert.False(t, isDone(slow.Synced()))
		assert.True(t, isDone(failing.Synced()))
		assert.True(t, isDone(panicking.Synced()), "kubernetes/kubernetes#129024")
		assert.True(t, isDone(exiting.Synced()))
		assert.EqualValues(t, 1, panicking.Stats().Panics)
		assert.EqualValues(t, 1, exiting.Stats().Panics)
		close(release)
		synctest.Wait()
		assert.True(t, isDone(slow.Synced()))
		err := stop()
		var left *eventqueue.DrainError
		require.ErrorAs(t, err, &left)
		assert.ErrorContains(t, err, `subscriber #2: 1 key(s) left undone; "a": 1 event(s), failed: for ever`)
	})
}

func TestPullingSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		sub := i.Subscribe()
		var seen []string
		for e := range sub.Consume(t.Context()) {
			seen = append(seen, e.Key.Name)
			break
		}
		for e := range sub.Consume(t.Context()) {
			if seen = append(seen, e.Key.Name); len(seen) == 3 {
				sub.Close()
			}
		}
		assert.Equal(t, []string{"a", "a", "b"}, seen, "break does not acknowledge, the end of the body does")
		<-sub.Done()
		require.NoError(t, stop())
	})
}

func TestCloseStopsCallsAndDoneWaitsForTheRunningOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		release := make(chan struct{})
		var d, other diary
		i.Handle(other.funcs())
		sub := i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			<-release
			return d.funcs().Handle(ctx, e)
		}))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		synctest.Wait()
		sub.Close()
		sub.Close()
		synctest.Wait()
		assert.False(t, isDone(sub.Done()), "the handler is still running")
		close(release)
		<-sub.Done()
		require.NoError(t, i.cache.Add(pod("c", "u3", 2)))
		synctest.Wait()
		assert.Equal(t, []string{"initial a@1"}, d.read())
		assert.Len(t, other.read(), 3)
		require.NoError(t, stop())
		assert.Len(t, i.subscriptions, 1, "a closed subscription is forgotten")
	})
}

func TestCloseFromTheHandlerAndWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		never := i.Handle(HandlerFuncs[*corev1.Pod]{})
		never.Close()
		assert.True(t, isDone(never.Done()))

		calls := 0
		var sub *Subscription[*corev1.Pod]
		sub = i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) {
			calls++
			sub.Close()
		}})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		<-sub.Done()
		require.NoError(t, stop())
		assert.Equal(t, 1, calls)
	})
}

func TestHandlersHearOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var early, late diary
		i.Handle(early.funcs())
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 2)}, "2"))
		synctest.Wait()
		require.NoError(t, i.cache.Update(pod("a", "u1", 3)))
		synctest.Wait()

		sub := i.Handle(late.funcs(), WithName("late"))
		<-sub.Synced()
		require.NoError(t, i.cache.Add(pod("c", "u3", 4)))
		require.NoError(t, i.cache.Delete(pod("a", "u1", 5)))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("c", "u3", 4)}, "6"))
		synctest.Wait()
		require.NoError(t, stop())

		assert.Equal(t, []string{"initial a@1", "initial b@2", "update a@1>3", "add c@4", "delete a@5", "missing b@2"}, early.read())
		assert.Equal(t, []string{"initial a@3", "initial b@2", "add c@4", "delete a@5", "missing b@2"}, late.read())
		assert.Equal(t, "late", sub.Name())
	})
}

func TestHandlersThatAreNilAreNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		sub := i.Handle(HandlerFuncs[*corev1.Pod]{})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		require.NoError(t, i.cache.Update(pod("a", "u1", 2)))
		require.NoError(t, i.cache.Delete(pod("a", "u1", 3)))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Zero(t, sub.Lag())
	})
}

func TestStalledSubscriberHoldsUpNobodyAndStaysSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		release := make(chan struct{})
		var quick, slow, all diary
		i.Handle(quick.funcs())
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			<-release
			return slow.funcs().Handle(ctx, e)
		}))
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			<-release
			return all.funcs().Handle(ctx, e)
		}), WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
		stop := start(t, i)
		require.NoError(t, i.cache.Add(pod("a", "u1", 1)))
		synctest.Wait() // both are stalled on the addition
		for version := 2; version <= 100; version++ {
			require.NoError(t, i.cache.Update(pod("a", "u1", version)))
			synctest.Wait()
		}
		assert.Len(t, quick.read(), 100)
		close(release)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"add a@1", "update a@1>100"}, slow.read())
		assert.Len(t, all.read(), 100)
	})
}

func TestFailedEventComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		i := newPods(WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		var d diary
		fails := 2
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			if e.Key.Name == "a" && fails > 0 {
				fails--
				return errors.New("not yet")
			}
			return d.funcs().Handle(ctx, e)
		}))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		synctest.Wait()
		assert.Equal(t, []string{"initial b@1"}, d.read(), "others go on")
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial b@1", "initial a@1"}, d.read())
		require.Len(t, failures, 2)
		assert.EqualError(t, failures[1], `handling "a" failed (attempt 2): not yet`)
	})
}

func TestNilHandlerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		i := newPods(WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		i.Handle(nil)
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		require.Len(t, failures, 1)
		assert.ErrorContains(t, failures[0], `panic on "a"`)
		require.Error(t, stop())
	})
}

func TestErrorThatOnlyLooksLikeAClosedSubscriptionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		i := newPods(WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			return eventqueue.ErrClosed // of another collection
		}))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		assert.Len(t, failures, 1)
		require.Error(t, stop())
	})
}
