package shard

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		pass(defaultLeaseDuration + defaultRenewPeriod)
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
					terms <- s.Generation
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
		one := w.startOn("one", network.over)
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
			assert.Equal(t, 1, times, "shard %s, term %d", shard, shard.Generation)
		}
		require.NoError(t, one.stop())
	})
}

func TestRenewalThatChangesNothingDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		network := &deceived{leases: "foos-one-*", update: changeNothing}
		one := w.startOn("one", network.over)
		pass(time.Second)
		two := w.start("two")
		pass(time.Second)
		network.on.Store(true)
		pass(defaultRenewDeadline + time.Second)
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
		v, _ := s.look(&options{clock: monotonic{}, lease: defaultLeaseDuration}, w.group)
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

// meddler has something done before a write of certain leases is sent.
type meddler struct {
	http.RoundTripper
	leases string // what their names begin with
	meddle func()
}

func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.HasPrefix(path.Base(r.URL.Path), m.leases) {
		m.meddle()
	}
	return m.RoundTripper.RoundTrip(r)
}

// meddled starts a member between whose writes somebody meddles.
func (w *world) meddled(identity, leases string, meddle func()) *started {
	return w.startOn(identity, func(next http.RoundTripper) http.RoundTripper { return &meddler{next, leases, meddle} })
}

// Two that come at the same time want the same shards at first, and who was faster gives
// back what is too much.
func TestShardThatSomebodyElseWroteFirstIsTakenAsSoonAsItIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		one := w.start("one")
		synctest.Wait()
		meddled := false
		two := w.meddled("two", shardLease("foos", 0), sync.OnceFunc(func() {
			meddled = true
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: shardLease("foos", 0)}}
			assert.NoError(t, w.server.Get(lease))
			lease.Annotations["faster"] = "yes"
			assert.NoError(t, w.server.Update(lease))
		}))
		synctest.Wait()
		before := time.Now()
		require.NoError(t, one.stop())
		synctest.Wait()
		assert.Equal(t, map[string]int{"two": 1}, w.load())
		assert.True(t, meddled)
		assert.Zero(t, time.Since(before))
		require.NoError(t, two.stop())
	})
}

// Others that see shards come back of a member that they count with share out what they hold.
func TestWhoGoesSaysSoBeforeItGivesAnythingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16)
		var going atomic.Bool
		asked, answer := make(chan struct{}), make(chan struct{})
		one := w.start("one")
		synctest.Wait()
		two := w.meddled("two", memberLease("foos", "two"), func() {
			if going.Load() {
				asked <- struct{}{}
				<-answer
			}
		})
		synctest.Wait()
		three := w.start("three")
		synctest.Wait()
		before, taken := w.load(), w.taken()

		going.Store(true)
		two.cancel()
		<-asked
		synctest.Wait()
		assert.Zero(t, w.load()["two"], "its work has ended")
		assert.Equal(t, taken, w.taken(), "but nobody else has begun")
		going.Store(false)
		close(answer)
		require.NoError(t, <-two.ended)
		synctest.Wait()
		assert.Equal(t, map[string]int{"one": 8, "three": 8}, w.load())
		assert.Equal(t, taken+before["two"], w.taken(), "no others move")
		require.NoError(t, one.stop())
		require.NoError(t, three.stop())
	})
}
