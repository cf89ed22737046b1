package shard

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestLeaseThatNoMemberWroteIsReportedAndNotBelievedForEver(t *testing.T) {
	for name, c := range map[string]struct {
		create func(*world)
		held   int // meanwhile
	}{
		"of a shard, held by no member":          {func(w *world) { w.ghostShard("ghost", years, 1) }, 1},
		"of a member":                            {func(w *world) { w.ghostMember("2", "1", years) }, 1},
		"of a member, another number of shards":  {func(w *world) { w.ghostMember("3", "1", years) }, 0},
		"of a member that does not say its time": {func(w *world) { w.ghostMember("3", "", years) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				c.create(w)
				one := w.start("one")
				pass(time.Minute)
				assert.Equal(t, c.held, w.load()["one"])
				assert.ErrorIs(t, one.Ready(), ErrForeignLease)
				assert.NotEmpty(t, one.State().Foreign)
				pass(MaxLeaseDuration)
				assert.Equal(t, 2, w.load()["one"])
				assert.NoError(t, one.Ready())
				assert.Empty(t, one.State().Foreign)
				require.NoError(t, one.stop())
			})
		})
	}
}

func TestMemberThatClaimsToBeFirstIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		one := w.start("one")
		pass(time.Second)
		w.ghostMember("3", "1", 15)
		pass(time.Second)
		assert.Empty(t, w.load())
		assert.ErrorIs(t, one.Ready(), ErrForeignLease)
		pass(DefaultLeaseDuration + DefaultRenewPeriod)
		assert.Equal(t, 2, w.load()["one"])
		assert.NoError(t, one.Ready())
		require.NoError(t, one.stop())
	})
}

func TestTermThatCannotGrowIsReported(t *testing.T) {
	for transitions, want := range map[int32]int{math.MaxInt32: math.MaxInt32, -7: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2)
			w.ghostShard("", 15, transitions)
			terms := make(chan int, 9)
			w.work = func(ctx context.Context, s Shard) error {
				if s.Index == 0 {
					terms <- s.Term
				}
				<-ctx.Done()
				return nil
			}
			one := w.start("one")
			pass(time.Second)
			assert.Equal(t, want, <-terms)
			if want == math.MaxInt32 {
				assert.ErrorIs(t, one.Ready(), ErrForeignLease)
			}
			require.NoError(t, one.stop())
		})
	}
}

func TestLeaseOfYearsIsRefused(t *testing.T) {
	w := newWorld(t, 2)
	_, err := New(w.client(), w.group, "one", w.hold("one"), WithTimes(MaxLeaseDuration+time.Second, time.Minute, time.Second))
	assert.ErrorContains(t, err, "WithTimes")
}

// A release whose answer was lost may still arrive.
func TestShardThatMayBeGivenBackIsNotWorkedUnderTheSameTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		begun := map[Shard]int{}
		w.work = func(ctx context.Context, s Shard) error {
			w.mu.Lock()
			begun[s]++
			w.mu.Unlock()
			<-ctx.Done()
			return nil
		}
		network := &deceived{leases: "foos-[01]", update: lose}
		one := w.startOn("one", network)
		pass(time.Second)
		two := w.start("two")
		network.on.Store(true)
		pass(time.Second)
		require.NoError(t, two.stop())
		pass(5 * time.Second)
		network.on.Store(false)
		pass(time.Minute)
		assert.Equal(t, map[string]int{"one": 2}, w.load())
		for shard, times := range begun {
			assert.Equal(t, 1, times, "shard %s, term %d", shard, shard.Term)
		}
		require.NoError(t, one.stop())
	})
}

func TestRenewalThatChangesNothingDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		network := &deceived{leases: "foos-one-*", update: changeNothing}
		one := w.startOn("one", network)
		pass(time.Second)
		two := w.start("two")
		pass(time.Second)
		network.on.Store(true)
		pass(DefaultRenewDeadline + time.Second)
		assert.Zero(t, w.load()["one"], "others see no renewal")
		network.on.Store(false)
		pass(time.Minute)
		assert.Empty(t, w.clash())
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
	})
}

func TestNothingIsMissingUpToTheVersionOfAView(t *testing.T) {
	w := newWorld(t, 2)
	const before, all = 500, 1500
	create := func(i int) { w.create(memberLease("foos", fmt.Sprint(i)), nil, nil, 15, 0, fmt.Sprint(i)) }
	for i := range before {
		create(i)
	}
	leases := informer.New(w.client().Leases("default"))
	s := &sight{leases: leases, wake: make(chan struct{}, 1), seen: map[string]sighting{}, known: map[string]*coordinationv1.Lease{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- leases.Run(ctx) }()
	<-leases.Synced()
	go func() {
		for i := before; i < all; i++ {
			create(i)
		}
	}()
	var views []*view
	for done := false; !done; {
		v, _ := s.look(&options{clock: monotonic{}, lease: DefaultLeaseDuration}, w.group)
		views = append(views, v)
		done = len(v.members) == all
	}
	last := views[len(views)-1]
	for _, v := range views {
		for id, p := range last.members {
			if v.members[id] == nil {
				require.True(t, newer(p.lease.ResourceVersion, v.version), "%s is missing at %s", id, v.version)
			}
		}
	}
	cancel()
	<-ended
}
