package manager

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/recorder"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

func TestWhatIsLedFinishesWhileInformersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		m := New(server.Config())
		configMaps, err := Informer[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		begun, seen := make(chan struct{}), false
		Reconcile(m, "test", configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			if key.Name == "a" {
				close(begun)
				<-time.After(time.Second) // Run is told to end meanwhile
				assert.NoError(t, server.Create(configMap("ns", "b")))
				<-time.After(time.Second)
				_, seen = configMaps.Cache().Get(store.Key{Namespace: "ns", Name: "b"})
			}
			return reconcile.Result{}, nil
		})
		stop := start(t, m)
		<-begun
		require.NoError(t, stop())
		assert.True(t, seen, "the informer ended before the call did")
	})
}

func TestMembersEndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		m := New(nil)
		slow := func(ctx context.Context) error { <-ctx.Done(); <-time.After(time.Minute); return nil }
		m.AddLeaderElected(&member{name: "led", notes: &notes, run: slow})
		m.Add(&member{name: "base", notes: &notes})
		stop := start(t, m)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"led begins", "base begins"}, notes.take())
		m.Add(&member{name: "late", notes: &notes, run: slow})
		synctest.Wait()
		assert.Equal(t, []string{"late begins"}, notes.take())
		assert.ErrorIs(t, m.Run(t.Context()), controller.ErrRunning)
		require.NoError(t, stop())
		assert.Equal(t, []string{"led ends", "base ends", "late ends"}, notes.take())

		stop = start(t, m)
		synctest.Wait()
		assert.Len(t, notes.take(), 3, "it runs again")
		require.NoError(t, m.Ready())
		require.NoError(t, stop())
	})
}

func TestMemberThatFailsEndsAllInOrder(t *testing.T) {
	for _, led := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var notes journal
			m := New(nil)
			ouch, later := errors.New("ouch"), errors.New("later")
			fails := &member{name: "bad", notes: &notes, run: func(context.Context) error { <-time.After(time.Second); return ouch }}
			if led {
				m.AddLeaderElected(fails)
			} else {
				m.Add(fails)
			}
			m.AddLeaderElected(&member{name: "led", notes: &notes, run: func(ctx context.Context) error {
				<-ctx.Done()
				<-time.After(time.Minute)
				return later
			}})
			m.Add(&member{name: "base", notes: &notes})
			err := m.Run(t.Context())
			assert.ErrorIs(t, err, ouch)
			assert.ErrorIs(t, err, later)
			assert.ErrorContains(t, err, "bad: ouch")
			assert.ErrorContains(t, err, "led: later")
			var failed *RunnableError
			require.ErrorAs(t, err, &failed)
			got := notes.take()
			assert.Equal(t, []string{"bad ends", "led ends", "base ends"}, got[3:])
		})
	}
}

func TestMemberThatIsStoppedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		m := New(nil)
		membership := m.Add(&member{name: "gone", notes: &notes, ready: func() error { return errors.New("ouch") }})
		stop := start(t, m)
		synctest.Wait()
		assert.Error(t, m.Ready())
		membership.Stop()
		<-membership.Done()
		assert.NoError(t, m.Ready())
		require.NoError(t, stop())
	})
}

// slow is a member that is synced after a second of its Run.
type slow struct {
	member
	synced chan struct{}
}

func (s *slow) Run(ctx context.Context) error {
	time.AfterFunc(time.Second, func() { close(s.synced) })
	return s.member.Run(ctx)
}

func (s *slow) WaitForSync(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestWhatIsLedIsWaitedForIfNobodyElseLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m := New(nil)
		m.AddLeaderElected(&slow{member: member{name: "led", notes: &notes}, synced: make(chan struct{})})
		stop := start(t, m)
		began := time.Now()
		assert.NoError(t, m.WaitForSync(limited))
		assert.Equal(t, time.Second, time.Since(began))
		require.NoError(t, stop())

		server := reflectortest.Start(t)
		follower := New(nil, WithElection(newLock(t, server, "one")))
		follower.AddLeaderElected(&slow{member: member{name: "led", notes: &notes}, synced: make(chan struct{})})
		assert.NoError(t, follower.WaitForSync(limited), "it may never lead")
	})
}

// candidate is a process: a manager with an informer and a reconciler.
func candidate(t *testing.T, server *reflectortest.Server, name string, notes *journal) *Manager {
	m := New(server.Config(), WithElection(newLock(t, server, name)))
	configMaps, err := Informer[*corev1.ConfigMap](m, Selection{})
	require.NoError(t, err)
	Reconcile(m, "test", configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
		notes.addf("%s: %s", name, key.Name)
		return reconcile.Result{}, nil
	})
	return m
}

func TestFollowerIsReadyAndTakesOverWithAFullCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		var notes journal
		one, two := candidate(t, server, "one", &notes), candidate(t, server, "two", &notes)
		stopOne := start(t, one)
		<-time.After(time.Minute)
		stopTwo := start(t, two)
		<-time.After(time.Minute)
		assert.Equal(t, []string{"one: a"}, notes.take())
		assert.True(t, one.Leading())
		assert.False(t, two.Leading())
		assert.NoError(t, one.Ready())
		assert.NoError(t, two.Ready(), "it does what it is to do")
		assert.NoError(t, two.WaitForSync(t.Context()))

		asked := len(server.Requests(reflectortest.ForResource("configmaps")))
		require.NoError(t, stopOne())
		<-time.After(10 * time.Second) // less than a lease
		assert.True(t, two.Leading())
		assert.Equal(t, []string{"two: a"}, notes.take())
		for _, request := range server.Requests(reflectortest.ForResource("configmaps"))[asked:] {
			whole := request.Verb == "list" && request.Query.Get("limit") != "1" || request.Query.Has("sendInitialEvents")
			assert.False(t, whole, "nothing is read again, apart from what shows that the cache is not behind: %v", request)
		}
		assert.NoError(t, two.Ready())
		require.NoError(t, stopTwo())
	})
}

func TestNobodyIsACandidateWithEmptyCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		release := make(chan struct{})
		server.Inject(reflectortest.Stall(release).On("watch", "configmaps"))
		var notes journal
		m := candidate(t, server, "one", &notes)
		stop := start(t, m)
		<-time.After(10 * time.Second)
		assert.Empty(t, server.Requests(reflectortest.ForResource("leases")))
		assert.Error(t, m.Ready())
		assert.NoError(t, m.Alive(), "another process would not get an answer either")
		close(release)
		<-time.After(time.Minute)
		assert.True(t, m.Leading())
		require.NoError(t, stop())

		server.Inject(reflectortest.Stall(nil).On("watch", "configmaps"))
		stop = start(t, candidate(t, server, "two", &notes))
		<-time.After(time.Second)
		assert.NoError(t, stop(), "a candidate that was never ready ends as well")
	})
}

func TestElectionOfNoUseIsReportedBeforeAnythingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := newLock(t, reflectortest.Start(t), "one")
		m := New(nil, WithElection(lock, leader.WithTimes(time.Second, time.Second, time.Second)))
		var notes journal
		m.Add(&member{notes: &notes, name: "informer"})
		assert.ErrorContains(t, m.Run(t.Context()), "WithTimes")
		assert.Empty(t, notes.take())
	})
}

// Otherwise every process would lead.
func TestNilLockIsReportedBeforeAnythingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(nil, WithElection(nil))
		var notes journal
		m.AddLeaderElected(&member{notes: &notes, name: "painter"})
		assert.ErrorIs(t, m.Run(t.Context()), controller.ErrIncomplete)
		assert.Empty(t, notes.take())
		assert.False(t, m.Leading())
	})
}

func TestNilMemberIsReportedBeforeAnythingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(nil)
		var notes journal
		m.Add(&member{notes: &notes, name: "informer"})
		m.AddLeaderElected(nil)
		assert.ErrorIs(t, m.Run(t.Context()), controller.ErrIncomplete)
		assert.Empty(t, notes.take())
		assert.ErrorIs(t, m.Ready(), controller.ErrIncomplete)
	})
}

func TestStopWithAKeyInBackOffIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		core, lines := observer.New(zap.WarnLevel)
		m := New(server.Config(), WithLogger(zap.New(core)))
		configMaps, err := Informer[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		Reconcile(m, "painter", configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("ouch")
		})
		stop := start(t, m)
		synctest.Wait()
		require.NoError(t, stop())
		left := lines.FilterMessage("member ended with work left").All()
		require.Len(t, left, 1)
		assert.Equal(t, "painter", left[0].ContextMap()["member"])
		assert.Contains(t, left[0].ContextMap()["error"], "ns/a")
	})
}

func TestStopWithAnUnwrittenEventIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		core, lines := observer.New(zap.WarnLevel)
		m := New(nil, WithLogger(zap.New(core)))
		events := recorder.New(clientset.EventsV1(), "painter")
		m.Add(events)
		stop := start(t, m)
		synctest.Wait()
		server.Inject(reflectortest.Stall(nil))
		events.Eventf(&corev1.ObjectReference{Kind: "ConfigMap", Namespace: "ns", Name: "a"}, nil, corev1.EventTypeNormal, "Painted", "Paint", "done")
		require.NoError(t, stop())
		left := lines.FilterMessage("member ended with work left").All()
		require.Len(t, left, 1)
		assert.Equal(t, events.Name(), left[0].ContextMap()["member"])
		assert.Equal(t, recorder.ErrUnwritten.Error(), left[0].ContextMap()["error"])
	})
}

func TestMemberThatReturnsTheEndOfItsContextHasNotFailed(t *testing.T) {
	for name, test := range map[string]struct {
		returns func(context.Context) error
		fails   bool
	}{
		"its error":         {returns: context.Context.Err},
		"its cause":         {returns: context.Cause},
		"a request's error": {returns: func(ctx context.Context) error { return fmt.Errorf("Post: %w", ctx.Err()) }},
		"that of a request that the cause ended": {returns: func(ctx context.Context) error {
			return &url.Error{Op: "Post", URL: "x", Err: context.Cause(ctx)}
		}},
		"another as well": {returns: func(ctx context.Context) error { return errors.Join(ctx.Err(), errors.New("ouch")) }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(nil)
				m.AddLeaderElected(&member{name: "cleaner", notes: &journal{}, run: func(ctx context.Context) error {
					<-ctx.Done()
					return test.returns(ctx)
				}})
				ctx, hardStop := controller.HardStopContext(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- m.Run(ctx) }()
				synctest.Wait()
				hardStop()
				assert.Equal(t, test.fails, <-ended != nil)
				stop := start(t, m)
				synctest.Wait()
				assert.Equal(t, test.fails, stop() != nil)
			})
		})
	}
}

func TestOtherFailuresAtTheEndAreReturned(t *testing.T) {
	left := &eventqueue.DrainError{Pending: []eventqueue.Pending{{Key: store.Key{Name: "a"}}}}
	assert.True(t, onlyLeft(errors.Join(fmt.Errorf("subscriber s: %w", left), left), nil))
	assert.False(t, onlyLeft(errors.Join(left, errors.New("ouch")), nil))
	assert.True(t, onlyLeft(fmt.Errorf("events: %w", recorder.ErrUnwritten), nil))
	assert.False(t, onlyLeft(nil, nil))
}

func TestRunFailsIfAReconcilersInformerDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, calls := watchingSecrets(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := m.Run(ctx)
		require.NoError(t, ctx.Err(), "Run fails at once")
		var failed *RunnableError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "painter", failed.Name)
		assert.ErrorContains(t, err, `informer "secrets"`)
		assert.Empty(t, calls.take())
	})
}

func TestRunTakesInformersOfReconcilersThatRun(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, m *Manager, secrets informer.Runnable) (stop func() error){
		"member": func(_ *testing.T, m *Manager, secrets informer.Runnable) func() error { m.Add(secrets); return nil },
		"member of a nested manager": func(_ *testing.T, m *Manager, secrets informer.Runnable) func() error {
			m.Add(nest(nest(secrets)))
			return nil
		},
		"member of a led manager": func(_ *testing.T, m *Manager, secrets informer.Runnable) func() error {
			m.AddLeaderElected(nest(secrets))
			return nil
		},
		"run by a led member of the user": func(_ *testing.T, m *Manager, secrets informer.Runnable) func() error {
			m.AddLeaderElected(&member{notes: &journal{}, run: secrets.Run})
			return nil
		},
		"run by a led member with a sync of its own": func(_ *testing.T, m *Manager, secrets informer.Runnable) func() error {
			m.AddLeaderElected(&syncing{member{notes: &journal{}, run: secrets.Run}})
			return nil
		},
		"run by a member of a led manager": func(_ *testing.T, m *Manager, secrets informer.Runnable) func() error {
			m.AddLeaderElected(nest(&member{notes: &journal{}, run: secrets.Run}))
			return nil
		},
		"run before": func(t *testing.T, _ *Manager, secrets informer.Runnable) func() error { return start(t, secrets) },
		"run by a member of the user": func(_ *testing.T, m *Manager, secrets informer.Runnable) func() error {
			m.Add(&member{notes: &journal{}, run: secrets.Run})
			return nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, secrets, calls := watchingSecrets(t)
			stopSecrets := prepare(t, m, secrets)
			stop := start(t, m)
			<-time.After(time.Minute)
			assert.Equal(t, []string{"ns/a"}, calls.take(), name)
			require.NoError(t, stop(), name)
			if stopSecrets != nil {
				require.NoError(t, stopSecrets(), name)
			}
		})
	}
}

// syncing is like a member of a group of shards.
type syncing struct{ member }

func (*syncing) Synced() <-chan struct{} { return make(chan struct{}) }
