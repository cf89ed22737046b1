package leader

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// led is something that is led: it tells when it begins, and why it ends.
type led struct {
	began chan struct{}
	ended chan error
	takes time.Duration // to end
	slow  time.Duration // to end although it is told to at once
	fails error         // at once, if there is one
}

func newLed() *led { return &led{began: make(chan struct{}, 9), ended: make(chan error, 9)} }

func (l *led) Run(ctx context.Context) error {
	l.began <- struct{}{}
	if l.fails != nil {
		return l.fails
	}
	<-ctx.Done()
	if context.Cause(ctx) == controller.ErrStopNow {
		<-time.After(l.slow)
	} else {
		<-time.After(l.takes)
	}
	l.ended <- context.Cause(ctx)
	return nil
}

func newLock(t *testing.T, server *reflectortest.Server, identity string) resourcelock.Interface {
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "lease"},
		Client:     clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

func start(t *testing.T, e *Elector) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- e.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

func TestOneLeadsAndTheOtherTakesOverWhenItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		one, two := newLed(), newLed()
		one.takes = time.Minute
		first, second := New(newLock(t, server, "one"), one), New(newLock(t, server, "two"), two)
		stopFirst := start(t, first)
		<-one.began
		stopSecond := start(t, second)
		<-time.After(time.Minute)
		assert.True(t, first.Leading())
		assert.False(t, second.Leading())
		assert.ErrorIs(t, first.Run(t.Context()), controller.ErrRunning)

		go func() {
			<-time.After(59 * time.Second)
			assert.False(t, second.Leading(), "the first has not ended yet")
		}()
		require.NoError(t, stopFirst())
		assert.ErrorIs(t, <-one.ended, context.Canceled)
		<-time.After(5 * time.Second) // less than the lease
		assert.True(t, second.Leading(), "the lease was given up")
		require.NoError(t, stopSecond())
		<-two.ended
	})
}

// leads is client-go's metric of the leases that this process has.
type leads struct{ held sync.Map }

func (l *leads) NewLeaderMetric() leaderelection.LeaderMetric { return l }
func (l *leads) On(name string)                               { l.held.Store(name, true) }
func (l *leads) Off(name string)                              { l.held.Delete(name) }
func (l *leads) SlowpathExercised(string)                     {}

func TestSecondRunLeavesTheMetricOfTheLeaseAlone(t *testing.T) {
	metric := &leads{}
	leaderelection.SetProvider(metric)
	synctest.Test(t, func(t *testing.T) {
		led := newLed()
		lock := newLock(t, reflectortest.Start(t), "one")
		e := New(lock, led)
		stop := start(t, e)
		<-led.began
		assert.ErrorIs(t, e.Run(t.Context()), controller.ErrRunning)
		assert.NoError(t, e.Check())
		_, leads := metric.held.Load(lock.Describe())
		assert.True(t, leads)
		require.NoError(t, stop())
		<-led.ended
	})
}

// theirs runs client-go's own elector, which gives its lease up at the end.
func theirs(t *testing.T, lock resourcelock.Interface) (e *leaderelection.LeaderElector, stop func()) {
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: defaultLeaseDuration, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(ctx context.Context) { <-ctx.Done() }, OnStoppedLeading: func() {}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(ctx)
	}()
	return e, func() { cancel(); <-ended }
}

// A program that moves here may keep the name of its lease: in a rolling update, processes of both kinds wait for
// each other.
func TestClientGosElectorsTakeTurnsWithOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		old, stopOld := theirs(t, newLock(t, server, "old"))
		<-time.After(time.Minute)
		assert.True(t, old.IsLeader())
		led := newLed()
		ours := New(newLock(t, server, "ours"), led)
		stop := start(t, ours)
		<-time.After(time.Minute)
		assert.False(t, ours.Leading())
		stopOld()
		<-time.After(5 * time.Second) // less than the lease
		assert.True(t, ours.Leading(), "the lease was given up")

		led.takes = 10 * time.Second
		back, stopBack := theirs(t, newLock(t, server, "back"))
		<-time.After(time.Minute)
		assert.False(t, back.IsLeader())
		require.NoError(t, stop())
		<-led.ended
		<-time.After(5 * time.Second)
		assert.True(t, back.IsLeader())
		stopBack()
	})
}

func TestLeaderThatCannotRenewEndsBeforeAnotherMayLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		one := newLed()
		stop := start(t, New(newLock(t, server, "one"), one))
		<-one.began
		for name, fault := range map[string]reflectortest.Fault{"stalled": reflectortest.Stall(nil), "refused": reflectortest.Answer(500)} {
			<-time.After(time.Minute + time.Second/2) // between two renewals
			lease, err := newLock(t, server, "two").(*resourcelock.LeaseLock).Client.Leases("default").Get(t.Context(), "lease", metav1.GetOptions{})
			require.NoError(t, err)
			renewed := lease.Spec.RenewTime.Time
			server.Inject(fault.On("", "leases"))
			assert.ErrorIs(t, <-one.ended, controller.ErrStopNow, name)
			assert.Less(t, time.Since(renewed), defaultLeaseDuration-2*time.Second, name)
			<-time.After(time.Minute)
			assert.Empty(t, one.began)
			server.ClearFaults()
			<-one.began // it leads again
		}
		require.NoError(t, stop())
	})
}

func TestHandlersOfALedInformerEndBeforeAnotherMayLead(t *testing.T) {
	defer func(handlers []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = handlers }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil // they share a clock with code outside of the bubbles
	client := func(server *reflectortest.Server) typedcorev1.PodInterface {
		return kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("default")
	}
	for name, led := range map[string]func(server *reflectortest.Server, handle func(ctx context.Context)) controller.Runner{
		"informer": func(server *reflectortest.Server, handle func(ctx context.Context)) controller.Runner {
			pods := informer.New(client(server))
			pods.Handle(informer.HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error { handle(ctx); return nil }))
			return pods
		},
		"scoped informer": func(server *reflectortest.Server, handle func(ctx context.Context)) controller.Runner {
			scopes := scoped.New(store.ObjectKey[*corev1.Pod])
			require.NoError(t, scoped.Add(scopes, store.Scope{Namespace: "default"}, client(server)))
			scopes.Informer().Handle(informer.HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error { handle(ctx); return nil }))
			return scopes.Informer()
		},
		"client-go's informer": func(server *reflectortest.Server, handle func(ctx context.Context)) controller.Runner {
			return ledFunc(func(ctx context.Context) error {
				pods := clientgo.NewTyped(client(server))
				_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { handle(ctx) }})
				pods.RunWithContext(ctx)
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				for n := range 60 {
					require.NoError(t, server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strconv.Itoa(n)}}))
				}
				var calls []error                                                                                                                 // whether each was held when it began
				handled := led(server, func(ctx context.Context) { calls = append(calls, CheckHeld(ctx)); <-time.After(701 * time.Millisecond) }) // no call begins at the loss
				ended := make(chan struct{}, 9)
				stop := run(t, newLock(t, server, "one"), func(ctx context.Context) error {
					defer func() { ended <- struct{}{} }()
					return handled.Run(ctx)
				})
				<-time.After(20 * time.Second)
				server.Inject(reflectortest.Stall(nil).On("", "leases"))
				cut := time.Now()
				<-ended
				assert.Less(t, time.Since(cut), defaultLeaseDuration)
				assert.Greater(t, len(calls), 10)
				for _, held := range calls {
					assert.NoError(t, held, "no call begins without the lease")
				}
				synctest.Wait() // the elector has seen the loss
				require.NoError(t, stop())
			})
		})
	}
}

func TestNothingIsLedTwiceInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		one := newLed()
		one.slow = time.Hour
		e := New(newLock(t, server, "one"), one)
		stop := start(t, e)
		<-one.began
		server.Inject(reflectortest.Answer(500).On("", "leases"))
		<-time.After(time.Minute)
		server.ClearFaults()
		<-time.After(30 * time.Minute)
		assert.Empty(t, one.began)
		assert.True(t, e.Leading(), "it has not ended yet")
		identity, _ := holder(t, newLock(t, server, "two"))
		assert.Equal(t, "one", identity, "a lease that was lost is not given up")
		<-one.ended
		<-one.began
		require.NoError(t, stop())
	})
}

// named is something with a name that is led.
type named struct{ *led }

func (named) Name() string { return "foos" }

// leader-L3
func TestLedMemberThatWorksOnWithoutTheLeaseIsReported(t *testing.T) {
	for name, told := range map[string]bool{"lost": false, "lost while it finishes": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, one := reflectortest.Start(t), newLed()
				one.takes, one.slow = time.Hour, time.Hour
				core, lines := observer.New(zap.ErrorLevel)
				e := New(newLock(t, server, "one"), named{one}, WithLogger(zap.New(core)))
				stop := start(t, e)
				<-one.began
				if told {
					go func() { assert.NoError(t, stop()) }()
				}
				<-time.After(time.Second / 2) // between two renewals
				server.Inject(reflectortest.Answer(500).On("", "leases"))
				<-time.After(defaultLeaseDuration - time.Second)
				assert.Zero(t, lines.Len(), "it may still end in time")
				<-time.After(time.Second)
				require.Equal(t, 1, lines.Len())
				assert.Equal(t, "foos", lines.All()[0].ContextMap()["member"])
				assert.Contains(t, lines.All()[0].ContextMap()["because"], "not renewed")
				<-time.After(defaultLeaseDuration - time.Second)
				assert.NoError(t, e.Alive(), "others may lead only since then")
				<-time.After(time.Second)
				assert.ErrorContains(t, e.Alive(), "lease default/lease was lost, and foos works on")
				assert.True(t, e.Leading())
				server.ClearFaults()
				<-time.After(time.Hour)
				assert.NoError(t, e.Alive(), "it has ended")
				assert.Equal(t, 1, lines.Len())
				if !told {
					require.NoError(t, stop())
				}
			})
		})
	}
}

func TestCandidateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(500).On("", "leases"))
		one := newLed()
		stop := start(t, New(newLock(t, server, "one"), one))
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Empty(t, one.began)
	})
}

func TestWhatIsLedEndsTheElectionByItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		one := newLed()
		one.fails = errors.New("ouch")
		assert.ErrorIs(t, New(newLock(t, server, "one"), one).Run(t.Context()), one.fails)
		lease, err := newLock(t, server, "x").(*resourcelock.LeaseLock).Client.Leases("default").Get(t.Context(), "lease", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, *lease.Spec.HolderIdentity, "others may have a go")
	})
}

// tampered is a lock that does something else when it updates.
type tampered struct {
	resourcelock.Interface
	write func(ctx context.Context, record resourcelock.LeaderElectionRecord, write func() error) error
}

func (l *tampered) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, func() error { return l.Interface.Update(ctx, record) })
}

func holder(t *testing.T, lock resourcelock.Interface) (identity string, renewed time.Time) {
	record, _, err := lock.Get(t.Context())
	require.NoError(t, err)
	return record.HolderIdentity, record.RenewTime.Time
}

func TestLeaseCountsFromWhenItsRequestWasBegun(t *testing.T) {
	for name, atOnce := range map[string]bool{"taken": true, "renewed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				one, slow := newLed(), atomic.Bool{}
				slow.Store(atOnce)
				lock := &tampered{newLock(t, server, "one"), func(_ context.Context, _ resourcelock.LeaderElectionRecord, write func() error) error {
					err := write()
					if slow.CompareAndSwap(true, false) {
						server.Inject(reflectortest.Answer(500).On("", "leases"))
						<-time.After(9 * time.Second) // the answer takes so long
					}
					return err
				}}
				stop := start(t, New(lock, one))
				<-one.began
				if !atOnce {
					<-time.After(time.Minute + time.Second/2)
					slow.Store(true)
				}
				assert.ErrorIs(t, <-one.ended, controller.ErrStopNow)
				server.ClearFaults()
				_, renewed := holder(t, newLock(t, server, "two"))
				assert.LessOrEqual(t, time.Since(renewed), defaultRenewDeadline+defaultRetryPeriod+time.Second/10)
				<-one.began // it leads again
				assert.NoError(t, stop())
			})
		})
	}
}

func TestLeaderThatLosesTheLeaseWhileItFinishesEndsBeforeAnotherMayLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		lines := eventqueue.New(func(s string) (store.Key, error) { return store.Key{Name: s}, nil })
		require.NoError(t, lines.Add("a"))
		feed := func(ctx context.Context) error { <-ctx.Done(); return nil }
		var ended time.Time
		one := controller.New(feed, lines, func(ctx context.Context, _ *eventqueue.Queue[string]) error {
			<-ctx.Done()
			ended = time.Now()
			return ctx.Err()
		}, controller.WithDrainTimeout(time.Hour))
		stop := start(t, New(newLock(t, server, "one"), one))
		<-time.After(time.Minute + time.Second/2)
		time.AfterFunc(time.Second, func() { server.Inject(reflectortest.Stall(nil).On("", "leases")) })
		assert.ErrorIs(t, stop(), controller.ErrStopNow)
		server.ClearFaults()
		_, renewed := holder(t, newLock(t, server, "two"))
		assert.Less(t, ended.Sub(renewed), defaultLeaseDuration-2*time.Second)
	})
}

func TestLeaseIsGivenUpThoughALateRenewalComesBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		one, releases := newLed(), 0
		lock := &tampered{newLock(t, server, "one"), func(_ context.Context, record resourcelock.LeaderElectionRecord, write func() error) error {
			if record.HolderIdentity == "" {
				if releases++; releases == 1 {
					return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "lease", errors.New("somebody was faster"))
				}
			}
			return write()
		}}
		stop := start(t, New(lock, one))
		<-one.began
		require.NoError(t, stop())
		identity, _ := holder(t, newLock(t, server, "two"))
		assert.Empty(t, identity)
		assert.Equal(t, 2, releases)
	})
}

func TestLeaseIsGivenUpIfNobodyKnowsWhetherItWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		one := newLed()
		lock := &tampered{newLock(t, server, "one"), func(ctx context.Context, record resourcelock.LeaderElectionRecord, write func() error) error {
			if record.HolderIdentity == "" {
				return write()
			}
			require.NoError(t, write())
			<-ctx.Done() // the answer is lost
			return ctx.Err()
		}}
		stop := start(t, New(lock, one))
		<-time.After(defaultLeaseDuration + 3*defaultRetryPeriod)
		identity, _ := holder(t, newLock(t, server, "two"))
		require.Equal(t, "one", identity)
		require.NoError(t, stop())
		identity, _ = holder(t, newLock(t, server, "two"))
		assert.Empty(t, identity)
		assert.Empty(t, one.began)
	})
}

func TestLeaseIsGivenUpIfTheConnectionBrokeWhenItWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		one := newLed()
		lock := &tampered{newLock(t, server, "one"), func(_ context.Context, record resourcelock.LeaderElectionRecord, write func() error) error {
			if record.HolderIdentity == "" {
				return write()
			}
			require.NoError(t, write())
			return errors.New("connection reset by peer")
		}}
		stop := start(t, New(lock, one))
		<-time.After(defaultLeaseDuration + 3*defaultRetryPeriod)
		require.NoError(t, stop())
		identity, _ := holder(t, newLock(t, server, "two"))
		assert.Empty(t, identity)
		assert.Empty(t, one.began)
	})
}

func TestLedMemberThatCallsGoexitHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		err := New(newLock(t, server, "one"), ledFunc(func(context.Context) error { runtime.Goexit(); return nil })).Run(t.Context())
		assert.ErrorContains(t, err, "runtime.Goexit")
	})
}

func TestElectorsOfNoUseSaySo(t *testing.T) {
	lock := &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "one"}}
	for _, e := range []*Elector{
		New(nil, newLed()), New(lock, nil), New(&resourcelock.LeaseLock{}, newLed()),
		New(lock, newLed(), WithTimes(12*time.Second, 2*time.Second, 2*time.Second)),
		New(lock, newLed(), WithTimes(12*time.Second, 10*time.Second, 2*time.Second)),
		New(lock, newLed(), WithTimes(12900*time.Millisecond, 10*time.Second, 2*time.Second)),
		New(lock, newLed(), WithTimes(900*time.Millisecond, 400*time.Millisecond, 100*time.Millisecond)),
	} {
		err := e.Check()
		assert.Error(t, err)
		assert.Equal(t, err, e.Run(t.Context()))
	}
	assert.ErrorIs(t, New(nil, newLed()).Check(), controller.ErrIncomplete)
	assert.ErrorIs(t, New(lock, nil).Check(), controller.ErrIncomplete)
}

func TestValidKnowsThatTheLeaseMayBeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		contexts, end := make(chan context.Context, 9), make(chan error)
		stop := run(t, newLock(t, server, "one"), func(ctx context.Context) error {
			contexts <- ctx
			<-ctx.Done()
			return <-end
		})
		first := <-contexts
		assert.NoError(t, valid(first))
		<-time.After(time.Minute)
		assert.NoError(t, valid(first), "it was renewed")
		replace(server, nil)
		<-first.Done()
		assert.ErrorIs(t, valid(first), ErrNotLeading)
		assert.ErrorContains(t, valid(first), "lease default/lease: the lease was deleted")
		end <- nil
		second := <-contexts
		assert.NoError(t, valid(second))
		assert.ErrorIs(t, valid(first), ErrNotLeading, "each term is its own")
		go func() { end <- nil }()
		assert.NoError(t, stop())
		assert.ErrorIs(t, valid(second), ErrNotLeading, "it has returned")
		assert.ErrorIs(t, valid(t.Context()), ErrNotLeading)
	})
}

// A process that was stopped, or a machine that was suspended, calls CheckHeld before its timers
// run.
func TestValidLooksAtTheClocksAndNotAtTimers(t *testing.T) {
	now := time.Now()
	lock := &heldLock{renewed: now, life: 12 * time.Second}
	assert.NoError(t, lock.valid(now.Add(11*time.Second)))
	assert.Error(t, lock.valid(now.Add(12*time.Second)))

	resumed := now.Add(12 * time.Second)
	(*struct{ wall, monotonic int64 })(unsafe.Pointer(&resumed)).monotonic -= int64(12 * time.Second)
	require.Zero(t, resumed.Sub(now), "the monotonic clock stood still")
	assert.Error(t, lock.valid(resumed))
	lock.renewed = resumed
	assert.NoError(t, lock.valid(now), "the wall clock was set back")
}

func TestReleasePausesBetweenConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, releases := newLed(), 0
		lock := &tampered{newLock(t, reflectortest.Start(t), "one"), func(_ context.Context, record resourcelock.LeaderElectionRecord, write func() error) error {
			if record.HolderIdentity != "" {
				return write()
			}
			if releases++; releases == 1000 {
				return errors.New("too often")
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "lease", errors.New("ouch"))
		}}
		stop := start(t, New(lock, one))
		<-one.began
		require.NoError(t, stop())
		assert.Less(t, releases, 100)
	})
}

func TestTimesOfDayMayDiffer(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			server, one, two := reflectortest.Start(t), newLed(), newLed()
			lock := &skewed{Interface: newLock(t, server, "one"), by: by}
			first, second := New(lock, one), New(newLock(t, server, "two"), two)
			stopFirst := start(t, first)
			<-one.began
			stopSecond := start(t, second)
			<-time.After(time.Minute)
			assert.True(t, first.Leading())
			assert.Empty(t, two.began)
			lock.cut.Store(true)
			soon(t, two.began)
			assert.False(t, first.Leading())
			assert.ErrorIs(t, soon(t, one.ended), controller.ErrStopNow)
			require.NoError(t, stopFirst())
			require.NoError(t, stopSecond())
		})
	}
}
