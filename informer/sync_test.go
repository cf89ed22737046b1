package informer

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestWaitForSyncReturnsWhenEveryHandlerHasBeenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		i := newServed(t, server)
		told := false
		i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { <-time.After(time.Minute); told = true }})
		i.Subscribe() // without a loop: it does not count
		closed := i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { <-time.After(time.Minute) }})
		result := make(chan error)
		go func() { result <- i.WaitForSync(t.Context()) }() // before Run
		stop := start(t, i)
		synctest.Wait()
		closed.Close()
		require.NoError(t, <-result)
		assert.True(t, told)
		require.NoError(t, stop())

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, i.WaitForSync(ended), "what is synced is so at once")
	})
}

func TestWaitForSyncNamesTheReflectorsStateAndLaggingHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		broken := server.Inject(reflectortest.Answer(500).On("", "pods"))
		i := newServed(t, server, WithName("my pods"), WithDrainTimeout(0))
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error {
			<-ctx.Done()
			return nil
		}), WithName("sleepy"))
		i.Handle(HandlerFuncs[*corev1.Pod]{}, WithName("quick"))
		stop := start(t, i)
		err := i.WaitForSync(within(t, time.Minute))
		var why *SyncError
		require.ErrorAs(t, err, &why)
		assert.Equal(t, "my pods", why.Informer)
		require.Len(t, why.Unsynced, 1)
		assert.Equal(t, reflector.BackingOff, why.Unsynced[0].State.Phase)
		assert.Greater(t, why.Unsynced[0].State.Attempt, 3)
		assert.True(t, apierrors.IsInternalError(err), "the server's answer is in it")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []string{"sleepy waits for the first list", "quick waits for the first list"}, why.Lagging)
		assert.ErrorContains(t, err, "informer my pods is not synced; reflector is BackingOff after attempt ")
		assert.Equal(t, why.Unsynced[0].State.Err, i.State().Err)

		broken.Remove()
		err = i.WaitForSync(within(t, time.Minute))
		require.ErrorAs(t, err, &why)
		assert.Empty(t, why.Unsynced)
		assert.Equal(t, []string{"sleepy has 1 object(s) left"}, why.Lagging)
		assert.EqualError(t, err, "informer my pods is not synced; subscriber sleepy has 1 object(s) left: context deadline exceeded")
		assert.ErrorAs(t, i.Ready(), &why)
		require.NoError(t, stop(), "its last call ended well")
	})
}

func TestWaitForSyncEndsWithAFailureOfTheReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		injected := server.Inject(reflectortest.Answer(403).On("", "pods"))
		i := newServed(t, server, WithReflector(reflector.WithRetry(func(err error) bool { return !apierrors.IsForbidden(err) })))
		result := make(chan error, 1)
		go func() { result <- i.WaitForSync(t.Context()) }()
		synctest.Wait()
		assert.True(t, apierrors.IsForbidden(i.Run(t.Context())))
		err := <-result
		var why *SyncError
		require.ErrorAs(t, err, &why)
		assert.True(t, apierrors.IsForbidden(why.Err))
		require.Error(t, i.WaitForSync(t.Context()), "also for those who come later")

		injected.Remove()
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, i.WaitForSync(t.Context()), "until it runs again")
		require.NoError(t, stop())
	})
}

func TestWaitForSyncOfASecondRunDoesNotEndWithTheFailureOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		forbidden := server.Inject(reflectortest.Answer(403).On("", "pods"))
		i := newServed(t, server, WithReflector(reflector.WithRetry(func(err error) bool { return !apierrors.IsForbidden(err) })))
		require.True(t, apierrors.IsForbidden(i.Run(t.Context())))

		forbidden.Remove()
		server.Inject(reflectortest.Answer(500).On("", "pods").Times(2)) // the second run has no list yet
		stop := start(t, i)
		synctest.Wait()
		result := make(chan error, 1)
		go func() { result <- i.WaitForSync(t.Context()) }()
		assert.NoError(t, <-result)
		require.NoError(t, stop())

		server.Inject(reflectortest.Answer(403).On("", "pods"))
		require.True(t, apierrors.IsForbidden(i.Run(t.Context())), "a second failure is reported, too")
	})
}

func TestReadinessEndsWithALongBreakOfTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		limited, never := newServed(t, server, WithName("limited"), WithStaleness(time.Minute)), newServed(t, server, WithStaleness(0))
		longest := newServed(t, server, WithStaleness(math.MaxInt64))
		defer start(t, longest)()
		var why *SyncError
		require.ErrorAs(t, limited.Ready(), &why)
		assert.Equal(t, reflector.Stopped, why.Unsynced[0].State.Phase)
		stop, stopNever := start(t, limited), start(t, never)
		synctest.Wait()
		require.NoError(t, limited.Ready())
		<-time.After(time.Hour)
		require.NoError(t, limited.Ready(), "a quiet watch is a good one")
		require.NoError(t, longest.Ready(), "the longest duration does not overflow")

		// Lists go on: it is the watch that counts.
		down := server.Inject(reflectortest.Answer(503).On("watch", "pods"))
		cut := server.Inject(reflectortest.ResetAfterEvents(0).On("watch", "pods"))
		require.NoError(t, server.Create(onNode("a", "n")))
		for limited.State().Phase == reflector.Watching {
			<-limited.Changed(limited.State())
		}
		cut.Remove()
		synctest.Wait()
		require.NoError(t, limited.Ready(), "a short break is nothing")
		<-time.After(2 * time.Minute)
		var stale *StaleError
		require.ErrorAs(t, limited.Ready(), &stale)
		assert.Equal(t, "limited", stale.Informer)
		assert.GreaterOrEqual(t, stale.For, 2*time.Minute)
		assert.True(t, apierrors.IsServiceUnavailable(stale), "%v", stale)
		assert.ErrorContains(t, stale, "informer limited has had no working watch for 2m")
		require.NoError(t, limited.WaitForSync(t.Context()), "it has been synced all the same")
		require.NoError(t, never.Ready())

		down.Remove()
		<-time.After(time.Minute)
		require.NoError(t, limited.Ready(), "and again with the next watch")
		require.NoError(t, stop())
		require.NoError(t, stopNever())
		<-time.After(2 * time.Minute)
		require.ErrorAs(t, limited.Ready(), &stale, "nobody watches")
	})
}

func TestDeadWatchIsStaleToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		release := make(chan struct{})
		defer close(release)
		i := newServed(t, server, WithReflector(reflector.WithoutWatchList()), WithStaleness(30*time.Second))
		server.Inject(reflectortest.StallAfterEvents(0, release).On("watch", "pods"))
		stop := start(t, i)
		synctest.Wait()
		require.Equal(t, reflector.Watching, i.State().Phase)
		<-time.After(watchLife)
		require.NoError(t, i.Ready())
		<-time.After(31 * time.Second) // before the reflector gives it up
		var stale *StaleError
		require.ErrorAs(t, i.Ready(), &stale)
		assert.Equal(t, reflector.Watching, stale.Scope.State.Phase)
		require.NoError(t, stop())
	})
}

func TestInformerOfAKindThatIsNotInstalledWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		missing := server.Inject(reflectortest.Answer(404).On("", "pods"))
		i := newServed(t, server, WithName("pods"))
		stop := start(t, i)
		err := i.WaitForSync(within(t, time.Hour))
		require.ErrorIs(t, err, reflector.ErrNotServed)
		assert.True(t, apierrors.IsNotFound(err))
		assert.ErrorContains(t, err, "may not be installed yet")
		assert.ErrorIs(t, i.State().Err, reflector.ErrNotServed)
		assert.Equal(t, reflector.BackingOff, i.State().Phase)

		require.NoError(t, server.Create(onNode("a", "n")))
		missing.Remove()
		require.NoError(t, i.WaitForSync(within(t, 31*time.Second)), "the longest back-off")
		assert.Equal(t, 1, i.Cache().Len())
		require.NoError(t, i.State().Err)
		require.NoError(t, stop())
	})
}

func TestUnusableInformerSaysSoToThoseWhoWait(t *testing.T) {
	i := New[*corev1.Pod, *corev1.PodList](nil)
	require.ErrorIs(t, i.Run(t.Context()), reflector.ErrNoClient)
	err := i.WaitForSync(t.Context())
	require.ErrorIs(t, err, reflector.ErrNoClient)
	assert.ErrorContains(t, err, "informer *v1.Pod is not synced; reflector is Stopped: ")
	assert.False(t, errors.Is(i.Ready(), reflector.ErrNoClient))
}

// TestInformerSurvivesTheEndOfItsKind has a definition go, and come back with other
// objects.
func TestInformerSurvivesTheEndOfItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "")))
		require.NoError(t, server.Create(onNode("b", "")))
		server.Inject(reflectortest.ResetAfterEvents(1).On("watch", "pods"))
		core, logs := observer.New(zap.WarnLevel)
		i := newServed(t, server, WithLogger(zap.New(core)), WithReflector(reflector.WithoutWatchList()))
		var d diary
		i.Handle(keyed(&d))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))

		server.Inject(reflectortest.Answer(404).On("", "pods"))
		require.NoError(t, server.Create(onNode("c", ""))) // which ends the watch
		<-time.After(defaultStaleness + 5*time.Minute)
		require.ErrorIs(t, i.State().Err, reflector.ErrNotServed)
		var stale *StaleError
		require.ErrorAs(t, i.Ready(), &stale)
		require.ErrorIs(t, stale, reflector.ErrNotServed)
		last := logs.All()[logs.Len()-1]
		assert.Contains(t, last.ContextMap()["error"], "may not be installed yet")
		require.NoError(t, i.WaitForSync(t.Context()), "it has been")

		require.NoError(t, server.Delete(onNode("a", "")))
		require.NoError(t, server.Delete(onNode("b", "")))
		require.NoError(t, server.Create(onNode("b", "")))
		require.NoError(t, server.Compact(server.ResourceVersion()))
		server.ClearFaults()
		<-time.After(time.Minute)
		require.NoError(t, i.Ready())
		require.NoError(t, i.State().Err)
		require.NoError(t, stop())
		lines := d.read()
		assert.ElementsMatch(t, []string{"Addition default/a initial=true", "Addition default/b initial=true"}, lines[:2])
		rest := lines[2:]
		assert.ElementsMatch(t, []string{
			"Deletion default/a initial=false", "Deletion default/b initial=false",
			"Addition default/b initial=false", "Addition default/c initial=false",
		}, rest)
		assert.Less(t, slices.Index(rest, "Deletion default/b initial=false"), slices.Index(rest, "Addition default/b initial=false"))
	})
}

// TestWatchesThatEndAtOnceAreNone has a server that accepts each watch and ends it before
// it has told anything.
func TestWatchesThatEndAtOnceAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		i := newServed(t, server, WithStaleness(30*time.Second))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		synctest.Wait()
		server.Inject(reflectortest.ResetAfterEvents(0).On("watch", "pods"))
		require.NoError(t, server.Create(onNode("b", "n")))
		<-time.After(12 * time.Minute) // the watch that worked is over
		for range 300 {
			<-time.After(time.Second)
			require.Error(t, i.Ready())
		}
		require.NoError(t, stop())
	})
}

func TestReadyFailsWhileAWatchIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		i := newServed(t, server, WithStaleness(5*time.Second))
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, i.Ready())
		stalled := server.Inject(reflectortest.Stall(nil).On("watch", "pods"))
		require.NoError(t, server.Restore(server.ResourceVersion())) // cuts watches off
		<-time.After(7 * time.Second)
		var stale *StaleError
		require.ErrorAs(t, i.Ready(), &stale)
		assert.Equal(t, reflector.Opening, stale.Scope.State.Phase)
		assert.False(t, i.Scopes()[0].Broken.IsZero())
		stalled.Remove()
		<-time.After(3 * time.Minute) // the request is given up after two
		assert.NoError(t, i.Ready())
		require.NoError(t, stop())
	})
}

// silence is a network whose connections stay open and carry nothing while it is silent, as behind a firewall that drops packets.
type silence struct {
	mu    sync.Mutex
	ended chan struct{} // closed unless it is silent
}

func newSilence(config *rest.Config) *silence {
	s := &silence{ended: make(chan struct{})}
	close(s.ended)
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &silentConn{Conn: conn, silence: s, closed: make(chan struct{})}, err
	}
	return s
}

func (s *silence) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = make(chan struct{})
}

func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ended)
}

// silentConn holds back what the server says while there is silence.
type silentConn struct {
	net.Conn
	silence *silence
	once    sync.Once
	closed  chan struct{}
}

func (c *silentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.silence.mu.Lock()
	ended := c.silence.ended
	c.silence.mu.Unlock()
	select {
	case <-ended:
		return n, err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *silentConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestInformerSurvivesSilentNetwork has an hour of silence, which nothing but a time-out tells from a quiet resource.
func TestInformerSurvivesSilentNetwork(t *testing.T) {
	const staleness = time.Minute
	clients := map[string]func(*testing.T, *rest.Config) *Informer[*corev1.Pod]{
		"resource": func(t *testing.T, config *rest.Config) *Informer[*corev1.Pod] {
			resource, err := client.ForResource[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods"), "default")
			require.NoError(t, err)
			return New(resource, WithStaleness(staleness))
		},
		"clientset": func(t *testing.T, config *rest.Config) *Informer[*corev1.Pod] {
			clientset, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)
			return New(clientset.CoreV1().Pods("default"), WithStaleness(staleness))
		},
	}
	cases := map[string]struct {
		first bool // the silence comes before the first request
		// unknown is how long the informer may take for ready what is not.
		unknown time.Duration
	}{
		"before the first list": {true, 0},
		"while it watches":      {false, watchLife + staleness + 2*time.Minute},
	}
	for api, newInformer := range clients {
		for name, c := range cases {
			t.Run(api+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					require.NoError(t, server.Create(onNode("a", "n1")))
					config := server.Config()
					network := newSilence(config)
					if c.first {
						network.begin()
					}
					i := newInformer(t, config)
					stop := start(t, i)
					synctest.Wait()
					if !c.first {
						require.NoError(t, i.Ready())
						network.begin()
					}
					requests := len(server.Requests())
					require.NoError(t, server.Create(onNode("b", "n1")))
					require.NoError(t, server.Delete(onNode("a", "")))

					<-time.After(c.unknown)
					assert.Error(t, i.Ready(), "%+v", i.State())
					<-time.After(time.Hour - c.unknown)
					assert.Error(t, i.Ready(), "%+v", i.State())
					assert.NotNil(t, i.State().Err)
					assert.LessOrEqual(t, len(server.Requests())-requests, 60, "the reflector backs off, and gives no request up at once")

					network.end()
					<-time.After(15 * time.Minute) // of a request that is on its way, and a back-off
					require.NoError(t, i.Ready())
					assert.Equal(t, 1, i.Cache().Len())
					_, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "b"})
					assert.True(t, ok)
					require.NoError(t, stop())
				})
			})
		}
	}
}
