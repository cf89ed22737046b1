package informer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestNothingIsCalledBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		var d diary
		sub := i.Handle(d.funcs())
		synctest.Wait()
		assert.Empty(t, d.read())
		assert.Equal(t, 1, sub.Lag())
		stop := start(t, i)
		<-sub.Synced()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1"}, d.read())
	})
}

func TestStopLetsHandlersFinishWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var d diary
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			<-time.After(time.Second)
			return d.funcs().Handle(ctx, e)
		}))
		unread := i.Subscribe() // without a loop: it does not count
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1), pod("c", "u3", 1)}, "1"))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Len(t, d.read(), 3)
		assert.Equal(t, 3, unread.Lag())
	})
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods(WithDrainTimeout(time.Minute))
		for range 2 {
			i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
				<-ctx.Done()
				return ctx.Err()
			}))
		}
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		before := time.Now()
		err := stop()
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(before))
	})
}

func TestHardStopEndsHandlersAtOnce(t *testing.T) {
	for _, draining := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			i := newPods(WithDrainTimeout(time.Hour))
			var causes []error
			i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error {
				<-ctx.Done()
				causes = append(causes, context.Cause(ctx))
				return ctx.Err()
			}))
			require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
			outer, end := context.WithCancel(t.Context())
			defer end()
			ctx, hardStop := lifecycle.HardStopContext(outer)
			result := make(chan error, 1)
			go func() { result <- i.Run(ctx) }()
			synctest.Wait()
			if draining {
				end()
				<-time.After(time.Minute)
				assert.Empty(t, causes, "it has time to finish")
			}
			before := time.Now()
			hardStop()
			var left *eventqueue.DrainError
			require.ErrorAs(t, <-result, &left)
			assert.Zero(t, time.Since(before))
			assert.Equal(t, []error{lifecycle.ErrStopNow}, causes)
			assert.Equal(t, lifecycle.ErrStopNow, left.Cause)
			assert.Len(t, left.Pending, 2)
		})
	}
}

func TestRunAfterAHardStopBeginsNoCall(t *testing.T) {
	for range 100 {
		i := newPods()
		var calls atomic.Int32
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error { calls.Add(1); return nil }))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		ctx, hardStop := lifecycle.HardStopContext(t.Context())
		hardStop()
		reading, end := context.WithCancel(context.WithoutCancel(ctx)) // as that of caches which end last
		time.AfterFunc(time.Millisecond, end)
		var left *eventqueue.DrainError
		require.ErrorAs(t, i.Run(reading), &left)
		assert.Zero(t, calls.Load())
	}
}

func TestWhatEndedLateIsNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods(WithDrainTimeout(time.Minute))
		var ended atomic.Int32
		slow := func(err error) Handler[*corev1.Pod] {
			return HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error {
				<-ctx.Done()
				<-time.After(time.Second)
				ended.Add(1)
				return err
			})
		}
		i.Handle(slow(nil))
		i.Handle(slow(errors.New("no time")), WithName("hasty"))
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			return errors.New("for ever")
		}), WithName("failing"), WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour)))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		err := stop()
		assert.EqualValues(t, 2, ended.Load())
		lines := strings.Split(err.Error(), "\n")
		assert.ElementsMatch(t, []string{
			`subscriber hasty: 1 key(s) left undone (drain timeout: context deadline exceeded); "a": 1 event(s), failed: no time`,
			`subscriber failing: 1 key(s) left undone (drain timeout: context deadline exceeded); "a": 1 event(s), failed: for ever`,
		}, lines)
	})
}

func TestSecondRunDoesNotOverlapTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods(WithDrainTimeout(0))
		running := 0
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			running++
			assert.Equal(t, 1, running)
			<-time.After(time.Hour) // whatever its context says
			running--
			return nil
		}))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		stop := start(t, i)
		synctest.Wait()
		go func() { _ = stop() }()
		synctest.Wait()
		assert.ErrorIs(t, i.Run(t.Context()), reflector.ErrRunning, "a handler is still running")
		var late diary
		i.Handle(late.funcs())
		<-time.After(2 * time.Hour)
		assert.Empty(t, late.read(), "no worker is started any more")
		stop = start(t, i)
		<-time.After(2 * time.Hour)
		require.NoError(t, stop())
		assert.Len(t, late.read(), 2)
	})
}

func TestRunAgainGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var d diary
		i.Handle(d.funcs())
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		assert.ErrorIs(t, i.Run(t.Context()), reflector.ErrRunning)
		require.NoError(t, stop())
		require.NoError(t, i.cache.Update(pod("a", "u1", 2)))
		stop = start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1", "update a@1>2"}, d.read())
	})
}

// TestSubscribersComeAndGoAsRunDoes has subscribers join and leave an informer that
// is started and stopped meanwhile, kubernetes/kubernetes#59822 among others.
func TestSubscribersComeAndGoAsRunDoes(t *testing.T) {
	i := newPods()
	require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
	stay := i.Handle(HandlerFuncs[*corev1.Pod]{})
	var subscribers, writer sync.WaitGroup
	for range 8 {
		subscribers.Go(func() {
			for range 50 {
				calls, both := map[string]int{}, make(chan struct{})
				sub := i.Handle(HandlerFunc[*corev1.Pod](func(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
					calls[e.Key.Name]++
					assert.Equal(t, calls[e.Key.Name] == 1, e.Type == eventqueue.Addition, "%v", e)
					if len(calls) == 2 && !isDone(both) {
						close(both)
					}
					return nil
				}))
				<-both
				sub.Close()
				<-sub.Done()
				assert.Len(t, calls, 2, "both, in however many runs")
			}
		})
	}
	ended := make(chan struct{})
	writer.Go(func() {
		for version := 2; !isDone(ended); version++ {
			assert.NoError(t, i.cache.Update(pod("a", "u1", version)))
		}
	})
	var runs sync.WaitGroup
	runs.Go(func() {
		for !isDone(ended) {
			ctx, cancel := context.WithCancel(t.Context())
			var stopping sync.WaitGroup
			stopping.Go(cancel)
			assert.NoError(t, i.Run(ctx))
			stopping.Wait()
		}
	})
	subscribers.Wait()
	close(ended)
	writer.Wait()
	runs.Wait()
	stay.Close()
	assert.Empty(t, i.subscriptions)
}

func TestSubscriptionOutlivesRunAndCanBeClosedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var d diary
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		late := i.Handle(d.funcs()) // of an informer that has stopped
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		assert.Empty(t, d.read())
		stop = start(t, i)
		<-late.Synced()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1"}, d.read())
		assert.False(t, isDone(late.Done()))

		var closing sync.WaitGroup
		for range 4 {
			closing.Go(late.Close)
		}
		closing.Wait()
		assert.True(t, isDone(late.Done()), "nothing runs")
		for range late.Consume(t.Context()) {
			t.Error("an event of a closed subscription")
		}
		require.NoError(t, i.cache.Update(pod("a", "u1", 2)))
		assert.Zero(t, late.Lag())
		stop = start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Len(t, d.read(), 1)
	})
}

func TestHandlerMaySubscribeAndCloseOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var inner, victim diary
		other := i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			victim.write("%v", e)
			return nil
		}))
		i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(p *corev1.Pod, _ bool) {
			if p.Name == "a" {
				i.Handle(inner.funcs())
				other.Close()
				<-other.Done()
			}
		}})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		before := len(victim.read())
		require.NoError(t, i.cache.Add(pod("b", "u2", 2)))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1", "add b@2"}, inner.read())
		assert.Len(t, victim.read(), before)
	})
}

func TestWhatIsDoneWhileOthersDrainIsNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var mu sync.Mutex
		calls := 0
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == 1 {
				return errors.New("not now")
			}
			return nil
		}), WithName("A"), WithQueue(eventqueue.WithBackoff(2*time.Second, 2*time.Second)))
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			<-time.After(5 * time.Second)
			return nil
		}), WithName("B"))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(500 * time.Millisecond)
		err := stop()
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 2, calls)
		assert.NoError(t, err)
		for _, s := range i.subscriptions {
			assert.Zero(t, s.Lag())
		}
	})
}

// drawn is a context that has ended, in a select that drew another case.
type drawn struct{ context.Context }

func (drawn) Done() <-chan struct{} { return nil }
func (drawn) Err() error            { return context.Canceled }

func TestNoResyncBeginsAfterTheFeedHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		sub := i.Subscribe(WithResync(time.Minute))
		time.AfterFunc(time.Hour, sub.Close)
		sub.resyncs(drawn{t.Context()})
		assert.Zero(t, sub.Stats().Merged, "a resync of a key that waits is merged")
		sub.Close()
	})
}

func TestSubscribersComeAndGoWhileTheCacheChanges(t *testing.T) {
	i := newPods()
	stop := start(t, i)
	require.NoError(t, i.cache.Replace(nil, "1"))
	var writer, subscribers sync.WaitGroup
	writer.Go(func() {
		for v := range 2000 {
			name := strconv.Itoa(v % 7)
			if v%3 == 2 {
				_ = i.cache.Delete(pod(name, "u", v+2))
			} else {
				_ = i.cache.Add(pod(name, "u", v+2))
			}
		}
	})
	for range 20 {
		subscribers.Go(func() {
			state := map[string]*corev1.Pod{}
			sub := i.Handle(HandlerFunc[*corev1.Pod](func(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
				known := state[e.Key.Name]
				assert.Equal(t, known != nil, e.PriorKnown, "%v", e)
				assert.Same(t, known, e.Prior, "%v", e)
				state[e.Key.Name] = e.Object
				if e.Type == eventqueue.Deletion {
					delete(state, e.Key.Name)
				}
				return nil
			}))
			<-sub.Synced()
			writer.Wait()
			assert.NoError(t, sub.queues.Drain(t.Context()))
			sub.Close()
			<-sub.Done()
			assert.Equal(t, i.cache.Len(), len(state))
			for key, p := range i.cache.All() {
				assert.Same(t, p, state[key.Name])
			}
		})
	}
	subscribers.Wait()
	require.NoError(t, stop())
}

// asked returns how often a server was asked for lists, also as watch-lists, and the
// resource versions of the other watches.
func asked(server *reflectortest.Server) (lists int, resumed []string) {
	for _, r := range server.Requests() {
		switch {
		case r.Verb == "list" || r.Query.Get("sendInitialEvents") == "true":
			lists++
		case r.Verb == "watch":
			resumed = append(resumed, r.Query.Get("resourceVersion"))
		}
	}
	return lists, resumed
}

func TestRunAgainResumesTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		i := newServed(t, server)
		var d diary
		i.Handle(keyed(&d))
		for range 3 {
			stop := start(t, i)
			require.NoError(t, i.WaitForSync(t.Context()))
			synctest.Wait()
			require.NoError(t, stop())
		}
		lists, resumed := asked(server)
		assert.Equal(t, 1, lists, "the first Run's")
		assert.Len(t, resumed, 2)
		require.NoError(t, server.Create(onNode("b", "n")))
		require.NoError(t, server.Update(onNode("a", "n2")))

		server.ForgetRequests()
		before := i.Cache().ResourceVersion()
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		lists, resumed = asked(server)
		assert.Zero(t, lists)
		assert.Equal(t, []string{before}, resumed)
		assert.Equal(t, []string{
			"Addition default/a initial=true", "Addition default/b initial=false", "Modification default/a initial=false",
		}, d.read(), "what happened in between, and nothing twice")
	})
}

// A Run that lists meanwhile would watch from its list, while the cache goes back to the restored objects.
func TestRunDoesNotBeginBesideRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		release := make(chan struct{})
		_, err := store.AddIndex(i.Cache(), "slow", func(*corev1.Pod) []string { <-release; return nil })
		require.NoError(t, err)
		restored := make(chan error, 1)
		go func() { restored <- i.Restore([]*corev1.Pod{pod("a", "u1", 1)}, "1") }()
		synctest.Wait()
		require.ErrorIs(t, i.Run(t.Context()), reflector.ErrRunning)
		close(release)
		require.NoError(t, <-restored)
		require.NoError(t, start(t, i)())
	})
}

func TestNewProcessResumesWhereTheOldOneWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		require.NoError(t, server.Create(onNode("b", "n")))
		old := newServed(t, server)
		stop := start(t, old)
		require.NoError(t, old.WaitForSync(t.Context()))
		require.NoError(t, stop())
		kept := old.Cache().Snapshot()
		var objects []*corev1.Pod
		for _, p := range kept.All() {
			objects = append(objects, p)
		}
		require.NoError(t, server.Delete(onNode("b", "n")))

		server.ForgetRequests()
		i := newServed(t, server)
		require.NoError(t, i.Restore(objects, kept.ResourceVersion()))
		var d diary
		i.Handle(keyed(&d))
		// The watch waits until the handler has heard of both objects. A deletion that comes before
		// merges with the addition that the handler has not taken yet.
		handled := make(chan struct{})
		server.Inject(reflectortest.Stall(handled).On("watch", "pods").Times(1))
		stop = start(t, i)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"Addition default/a initial=true", "Addition default/b initial=true"}, d.read())
		close(handled)
		synctest.Wait()
		require.ErrorIs(t, i.Restore(nil, "1"), reflector.ErrRunning)
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NoError(t, stop())
		lists, resumed := asked(server)
		assert.Zero(t, lists)
		assert.Equal(t, []string{kept.ResourceVersion()}, resumed)
		// The server marks a pod before it removes it. A handler that is quick hears of both changes.
		happened := slices.DeleteFunc(d.read()[2:], func(line string) bool { return line == "Modification default/b initial=false" })
		assert.Equal(t, []string{"Deletion default/b initial=false"}, happened, "what happened in between")

		// History is lost: a list finds out what is missing.
		require.NoError(t, server.Compact(server.ResourceVersion()))
		server.ForgetRequests()
		i = newServed(t, server)
		require.NoError(t, i.Restore(objects, kept.ResourceVersion()))
		stop = start(t, i)
		<-time.After(time.Minute)
		require.NoError(t, stop())
		lists, _ = asked(server)
		assert.Equal(t, 1, lists)
		assert.Equal(t, 1, i.Cache().Len())
	})
}
