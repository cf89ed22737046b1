package informer

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name, uid string, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}}
}

// newPods returns an informer whose reflector is in the hands of the test: what is
// written to its cache is what the reflector brings.
func newPods(opts ...Option) *Informer[*corev1.Pod] {
	i := New(fake.NewClientset().CoreV1().Pods("default"), opts...)
	i.feed = &idleFeed{Group: i.feed}
	return i
}

type idleFeed struct {
	feed.Group
	err error
}

func (f *idleFeed) Run(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	<-ctx.Done()
	return nil
}

func start(t *testing.T, i interface{ Run(context.Context) error }) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- i.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

// diary is a handler that writes down its calls.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.lines...)
}

func (d *diary) funcs() HandlerFuncs[*corev1.Pod] {
	return HandlerFuncs[*corev1.Pod]{
		OnAdd: func(p *corev1.Pod, initial bool) {
			word := "add"
			if initial {
				word = "initial"
			}
			d.write("%s %s@%s", word, p.Name, p.ResourceVersion)
		},
		OnUpdate: func(prior, p *corev1.Pod) {
			d.write("update %s@%s>%s", p.Name, prior.ResourceVersion, p.ResourceVersion)
		},
		OnDelete: func(p *corev1.Pod, finalStateKnown bool) {
			word := "delete"
			if !finalStateKnown {
				word = "missing"
			}
			d.write("%s %s@%s", word, p.Name, p.ResourceVersion)
		},
	}
}

// keyed is a handler that writes down types and keys.
func keyed(d *diary) Handler[*corev1.Pod] {
	return HandlerFunc[*corev1.Pod](func(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
		d.write("%v %v initial=%t", e.Type, e.Key, e.Initial)
		return nil
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
		picky := i.HandleFiltered(func(*corev1.Pod) bool { panic("ouch") }, HandlerFuncs[*corev1.Pod]{})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		assert.False(t, isDone(slow.Synced()))
		assert.True(t, isDone(failing.Synced()))
		assert.True(t, isDone(panicking.Synced()), "kubernetes/kubernetes#129024")
		assert.True(t, isDone(exiting.Synced()))
		assert.True(t, isDone(picky.Synced()), "it is told of nothing")
		assert.EqualValues(t, 1, panicking.Stats().Panics)
		assert.EqualValues(t, 1, exiting.Stats().Panics)
		assert.EqualValues(t, 1, picky.Stats().PredicateFailures)
		close(release)
		synctest.Wait()
		assert.True(t, isDone(slow.Synced()))
		err := stop()
		var left *eventqueue.DrainError
		require.ErrorAs(t, err, &left)
		assert.ErrorContains(t, err, `subscriber #2: 1 key(s) left undone; "a": 1 event(s), failed: for ever`)
	})
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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
		assert.ErrorContains(t, failures[0], `handler panicked on "a"`)
		require.Error(t, stop())
	})
}

func TestPullingSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		sub := i.Subscribe()
		var seen []string
		for e := range sub.Events(t.Context()) {
			seen = append(seen, e.Key.Name)
			break
		}
		for e := range sub.Events(t.Context()) {
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
		assert.ErrorIs(t, i.Run(t.Context()), ErrRunning, "a handler is still running")
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

func TestOptionsReachTheReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		down := errors.New("down")
		clientset.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
		core, logs := observer.New(zap.WarnLevel)
		var failures []error
		i := New(clientset.CoreV1().Pods("default"), WithLogger(zap.New(core)),
			WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }),
			WithReflector(reflector.WithName("my pods")))
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		require.Len(t, failures, 1)
		assert.EqualError(t, failures[0], `reflector my pods: list at resource version "0": down`)
		assert.Equal(t, 1, logs.Len())
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
		assert.ErrorIs(t, i.Run(t.Context()), ErrRunning)
		require.NoError(t, stop())
		require.NoError(t, i.cache.Update(pod("a", "u1", 2)))
		stop = start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1", "update a@1>2"}, d.read())
	})
}

func TestFailureOfTheReflectorEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		i := newPods()
		i.feed = &idleFeed{err: broken}
		assert.ErrorIs(t, i.Run(t.Context()), broken)
	})
}

func TestInformerWithoutAClientSaysSo(t *testing.T) {
	i := New[*corev1.Pod, *corev1.PodList](nil)
	assert.ErrorIs(t, i.Run(t.Context()), reflector.ErrNoClient)
}

func TestInformerOverAClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}})
		pods := clientset.CoreV1().Pods("default")
		i := New(pods)
		byNode, err := store.AddIndex(i.Cache(), "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		require.NoError(t, err)
		var d diary
		i.Handle(d.funcs())
		stop := start(t, i)
		<-i.Synced()
		synctest.Wait()
		assert.Equal(t, reflector.Watching, i.State().Phase)
		_, err = pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, Spec: corev1.PodSpec{NodeName: "n1"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		for key := range byNode.Get("n1") {
			assert.Equal(t, "default/new", key.String())
		}
		changed := i.Changed(i.State())
		require.NoError(t, stop())
		assert.True(t, isDone(changed))
		assert.Equal(t, []string{"initial old@", "add new@"}, d.read())
		assert.Equal(t, 2, i.Cache().Len())
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
