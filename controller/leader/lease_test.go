package leader

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func ptr[T any](v T) *T { return &v }

func holds(spec *coordinationv1.LeaseSpec) bool {
	return spec.HolderIdentity != nil && *spec.HolderIdentity != ""
}

func TestTermEndsWhenTheLeaseIsGoneOrAnothers(t *testing.T) {
	watches := map[string]struct {
		fault reflectortest.Fault
		delay time.Duration
	}{
		"watched":   {reflectortest.Answer(500).On("watch", "pods"), 0},
		"forbidden": {reflectortest.Answer(403).On("watch", "leases"), defaultRetryPeriod},
		"stalled":   {reflectortest.Stall(nil).On("watch", "leases"), defaultRetryPeriod},
	}
	for name, change := range map[string]func(*reflectortest.Server){
		"deleted": func(s *reflectortest.Server) { replace(s, nil) },
		"created anew with the same holder": func(s *reflectortest.Server) {
			spec := leaseOf(s).Spec
			spec.AcquireTime = ptr(metav1.NewMicroTime(time.Now()))
			replace(s, &spec)
		},
		"held by another": func(s *reflectortest.Server) {
			edit(s, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = ptr("two") })
		},
		"held by none": func(s *reflectortest.Server) {
			edit(s, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = ptr("") })
		},
	} {
		for watch, c := range watches {
			t.Run(name+", "+watch, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, one := reflectortest.Start(t), newLed()
					server.Inject(c.fault)
					stop := start(t, New(newLock(t, server, "one"), one))
					<-one.began
					<-time.After(time.Minute + time.Second/2)
					change(server)
					changed := time.Now()
					assert.ErrorIs(t, soon(t, one.ended), controller.ErrStopNow)
					assert.LessOrEqual(t, time.Since(changed), c.delay)
					soon(t, one.began)
					assert.GreaterOrEqual(t, time.Since(changed), defaultLeaseDuration)
					assert.NoError(t, stop())
				})
			})
		}
	}
}

func TestLeaseWithoutHolderIsWaitedForUnlessItWasGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		spec  *coordinationv1.LeaseSpec
		delay time.Duration
	}{
		"missing":  {nil, defaultLeaseDuration},
		"empty":    {&coordinationv1.LeaseSpec{}, defaultLeaseDuration},
		"given up": {&coordinationv1.LeaseSpec{HolderIdentity: ptr(""), LeaseDurationSeconds: ptr(int32(1))}, 0},
		"of an earlier process of this name": {
			&coordinationv1.LeaseSpec{HolderIdentity: ptr("one"), LeaseDurationSeconds: ptr(int32(1))}, defaultLeaseDuration,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, one := reflectortest.Start(t), newLed()
				replace(server, c.spec)
				begun := time.Now()
				stop := start(t, New(newLock(t, server, "one"), one))
				<-one.began
				assert.GreaterOrEqual(t, time.Since(begun), c.delay)
				assert.LessOrEqual(t, time.Since(begun), c.delay+3*defaultRetryPeriod)
				assert.NoError(t, stop())
			})
		})
	}
}

// fleeting is a lock whose lease is deleted as soon as it is created, a few times.
type fleeting struct {
	resourcelock.Interface
	server *reflectortest.Server
	times  int
}

func (l *fleeting) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	if l.times--; l.times >= 0 {
		replace(l.server, nil)
	}
	return err
}

func TestLeaseThatIsDeletedWhileItIsCreatedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, one := reflectortest.Start(t), newLed()
		began := time.Now()
		stop := start(t, New(&fleeting{newLock(t, server, "one"), server, 3}, one))
		soon(t, one.began)
		assert.GreaterOrEqual(t, time.Since(began), defaultLeaseDuration)
		<-time.After(time.Minute)
		assert.Empty(t, one.ended)
		assert.NoError(t, stop())
	})
}

func TestAtMostOneLeadsWhateverIsDoneToTheLeaseByHand(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c := &candidates{T: t, server: reflectortest.Start(t), random: rand.New(rand.NewPCG(seed, 0)), leading: map[string]bool{}}
			c.join()
			c.join()
			var copied *coordinationv1.LeaseSpec
			for range 60 {
				<-time.After(time.Duration(c.random.IntN(9000)) * time.Millisecond)
				p := c.all[c.random.IntN(len(c.all))]
				switch c.random.IntN(11) {
				case 0, 1:
					replace(c.server, nil)
				case 2:
					replace(c.server, &coordinationv1.LeaseSpec{RenewTime: ptr(metav1.NowMicro())})
				case 3:
					if lease := leaseOf(c.server); lease != nil && holds(&lease.Spec) {
						copied = &lease.Spec
					}
				case 4:
					if copied != nil {
						copied.RenewTime = ptr(metav1.NowMicro()) // an exact copy counts as the lease that was seen before
					}
					replace(c.server, copied)
				case 5:
					edit(c.server, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity, spec.LeaseDurationSeconds = nil, nil })
				case 6:
					edit(c.server, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = ptr("c0") })
				case 7:
					edit(c.server, func(spec *coordinationv1.LeaseSpec) {
						if holds(spec) {
							spec.LeaseDurationSeconds = ptr(int32(1))
						}
					})
				case 8:
					p.cut.Store(!p.cut.Load())
				case 9:
					p.deaf.Store(!p.deaf.Load())
				case 10:
					p.cancel()
					c.join()
				}
			}
			for _, p := range c.all {
				p.cut.Store(false)
				p.deaf.Store(false)
			}
			<-time.After(2 * time.Minute)
			assert.Equal(t, 1, c.leaders(), "in the end")
			for _, p := range c.all {
				p.cancel()
				assert.NoError(t, <-p.ended)
			}
			assert.Empty(t, c.clashes, "seed %d", seed)
		})
	}
}

// opening is a client that calls a function for each watch.
type opening struct {
	coordinationclient.LeasesGetter
	coordinationclient.LeaseInterface
	open func(open func() (watch.Interface, error)) (watch.Interface, error)
}

func (o opening) Leases(namespace string) coordinationclient.LeaseInterface {
	o.LeaseInterface = o.LeasesGetter.Leases(namespace)
	return o
}

func (o opening) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return o.open(func() (watch.Interface, error) { return o.LeaseInterface.Watch(ctx, opts) })
}

func TestWatchThatIsLateEndsNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock, one, late := lockOf(t, reflectortest.Start(t).Config(), "one"), newLed(), watch.NewFake()
		lock.Client = opening{LeasesGetter: lock.Client, open: func(func() (watch.Interface, error)) (watch.Interface, error) { return late, nil }}
		stop := start(t, New(lock, one))
		<-one.began
		late.Delete(&coordinationv1.Lease{})
		late.Modify(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr("two")}})
		late.Action(watch.Bookmark, nil)
		<-time.After(time.Minute)
		assert.Empty(t, one.ended)
		require.NoError(t, stop())
		assert.ErrorIs(t, <-one.ended, context.Canceled)
	})
}

func TestLeaseThatIsDeletedBeforeTheWatchEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, one, opened := reflectortest.Start(t), newLed(), false
		lock := lockOf(t, server.Config(), "one")
		lock.Client = opening{LeasesGetter: lock.Client, open: func(open func() (watch.Interface, error)) (watch.Interface, error) {
			if !opened {
				opened = true
				replace(server, nil)
			}
			return open()
		}}
		stop := start(t, New(lock, one))
		<-one.began
		begun := time.Now()
		assert.ErrorIs(t, <-one.ended, controller.ErrStopNow)
		assert.Zero(t, time.Since(begun))
		require.NoError(t, stop())
	})
}

func TestWatchIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, one := reflectortest.Start(t), newLed()
		core, lines := observer.New(zap.InfoLevel)
		// Rare renewals make two hours cheap.
		stop := start(t, New(newLock(t, server, "one"), one, WithLogger(zap.New(core)), WithTimes(2*time.Minute, time.Minute, 20*time.Second)))
		<-one.began
		for range 2 {
			synctest.Wait()
			assert.Len(t, watches(server), 1)
			<-time.After(30 * time.Minute)
			assert.Len(t, watches(server), 3)

			server.Inject(reflectortest.Answer(403).On("watch", "leases"))
			require.NoError(t, server.Restore(server.ResourceVersion())) // ends the watch
			server.ForgetRequests()
			<-time.After(30 * time.Minute)
			assert.Less(t, len(watches(server)), 40, "with back-off")
			assert.Equal(t, 1, lines.FilterMessageSnippet("lease not watched").Len(), "for each time without a watch")
			lines.TakeAll()
			server.ClearFaults()
			<-time.After(maxPause + time.Second/2)

			replace(server, nil)
			deleted := time.Now()
			assert.ErrorIs(t, <-one.ended, controller.ErrStopNow)
			assert.Zero(t, time.Since(deleted))
			server.ForgetRequests()
			<-one.began
			lines.TakeAll()
		}
		require.NoError(t, stop())
	})
}

func watches(server *reflectortest.Server) (all []reflectortest.Request) {
	for _, r := range server.Requests() {
		if r.Verb == "watch" {
			all = append(all, r)
		}
	}
	return all
}
