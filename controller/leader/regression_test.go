package leader

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		"forbidden": {reflectortest.Answer(403).On("watch", "leases"), DefaultRetryPeriod},
		"stalled":   {reflectortest.Stall(nil).On("watch", "leases"), DefaultRetryPeriod},
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
					assert.GreaterOrEqual(t, time.Since(changed), DefaultLeaseDuration)
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
		"missing":  {nil, DefaultLeaseDuration},
		"empty":    {&coordinationv1.LeaseSpec{}, DefaultLeaseDuration},
		"given up": {&coordinationv1.LeaseSpec{HolderIdentity: ptr(""), LeaseDurationSeconds: ptr(int32(1))}, 0},
		"of an earlier process of this name": {
			&coordinationv1.LeaseSpec{HolderIdentity: ptr("one"), LeaseDurationSeconds: ptr(int32(1))}, DefaultLeaseDuration,
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
				assert.LessOrEqual(t, time.Since(begun), c.delay+3*DefaultRetryPeriod)
				assert.NoError(t, stop())
			})
		})
	}
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

// A process that was stopped, or a machine that was suspended, calls Valid before its timers
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
