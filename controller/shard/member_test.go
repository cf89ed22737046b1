package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/internal/term"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestShardsAreSharedEvenlyAndMoveNoMoreThanNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16)
		one := w.start("one")
		pass(time.Second)
		assert.Equal(t, map[string]int{"one": 16}, w.load())
		assert.NoError(t, one.Ready())

		two := w.start("two")
		pass(time.Second)
		assert.Equal(t, map[string]int{"one": 8, "two": 8}, w.load())
		assert.Equal(t, 16+8, w.taken())

		three := w.start("three")
		pass(time.Second)
		assert.Equal(t, 5, w.load()["three"])
		assert.Equal(t, 16+8+5, w.taken())

		moving := w.load()["two"]
		require.NoError(t, two.stop())
		pass(time.Second)
		assert.Equal(t, map[string]int{"one": 8, "three": 8}, w.load())
		assert.Equal(t, 16+8+5+moving, w.taken())

		assert.Len(t, one.Owned(), 8)
		require.NoError(t, one.stop())
		require.NoError(t, three.stop())
		assert.Empty(t, w.load())
		assert.Empty(t, w.clash())
	})
}

// away starts a member on a machine of its own.
func (w *world) away(identity string, opts ...Option) (*started, *host) {
	h := newHost(rand.New(rand.NewPCG(1, 1)), 1)
	network := func(next http.RoundTripper) http.RoundTripper { h.next = next; return h }
	return w.startOn(identity, network, append(opts, optionFunc(func(o *options) { o.clock = h }))...), h
}

func TestMemberThatIsCutOffEndsBeforeOthersTakeItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		one, network := w.away("one")
		pass(time.Second)
		two := w.start("two")
		pass(time.Second)
		before := one.State().Incarnation
		network.set(func() { network.cut = true })
		cut := time.Now()
		pass(defaultRenewDeadline)
		assert.Equal(t, map[string]int{"two": 2}, w.load(), "the work has ended")
		assert.Empty(t, one.Owned())
		assert.Error(t, one.Ready())
		for w.load()["two"] < 4 {
			pass(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, time.Since(cut), defaultLeaseDuration+time.Second)
		network.set(func() { network.cut = false })
		pass(time.Minute)
		assert.Equal(t, map[string]int{"one": 2, "two": 2}, w.load())
		assert.NotEqual(t, before, one.State().Incarnation, "a lease that was lost does not come back")
		assert.Empty(t, w.clash())
		require.NoError(t, two.stop())
		require.NoError(t, one.stop())
		leases, err := w.client().Leases("default").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, leases.Items, 4, "the leases of members that have ended are deleted, those of shards stay")
	})
}

func TestMemberThatTakesManyShardsRenewsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 256)
		config := w.server.Config()
		config.QPS, config.Burst = rest.DefaultQPS, rest.DefaultBurst // for all of its requests
		clientset, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		m, err := New(clientset.CoordinationV1(), w.group, "one", w.hold("one"))
		require.NoError(t, err)
		one := w.run(m)
		pass(time.Second)
		first := one.State().Incarnation
		pass(2 * time.Minute)
		assert.Equal(t, first, one.State().Incarnation, "it has not lost its lease")
		assert.Equal(t, map[string]int{"one": 256}, w.load())
		require.NoError(t, one.stop())
	})
}

// A reconciler must see what the holder before wrote: see reconcile-R10.
func TestWorkOfAShardKnowsWhenItsTermBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		begun := make(chan time.Duration, 1)
		m, err := New(w.client(), w.group, "one", func(ctx context.Context, _ Shard) error {
			at, known := term.Begun(ctx)
			assert.True(t, known)
			begun <- time.Since(at)
			<-ctx.Done()
			return nil
		})
		require.NoError(t, err)
		one := w.run(m)
		assert.Zero(t, <-begun)
		require.NoError(t, one.stop())
	})
}

func TestShardIsKeptUntilItsWorkHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		release := make(chan struct{})
		w.work = func(ctx context.Context, _ Shard) error {
			<-ctx.Done()
			<-release
			return nil
		}
		one := w.start("one", optionFunc(func(o *options) { o.drain = 3 * time.Second }))
		pass(time.Second)
		two := w.start("two")
		pass(2 * time.Second)
		assert.NoError(t, one.Ready())
		pass(2 * time.Second)
		assert.ErrorContains(t, one.Ready(), "does not end")
		assert.NoError(t, one.Alive())
		pass(5 * time.Minute)
		assert.Equal(t, map[string]int{"one": 2}, w.load(), "nobody else has it")
		assert.Error(t, one.Alive(), "it will not end any more")
		ending := 0
		for _, s := range one.State().Shards {
			if s.Overdue {
				ending++
				assert.True(t, s.Held && s.Ending)
				assert.Equal(t, two.State().Incarnation, s.Target)
				assert.Equal(t, one.State().Incarnation, s.Holder)
			}
		}
		assert.Equal(t, 1, ending)
		close(release)
		pass(time.Second)
		assert.Equal(t, map[string]int{"one": 1, "two": 1}, w.load())
		assert.NoError(t, one.Ready())
		assert.NoError(t, one.Alive())
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
		assert.Empty(t, w.clash())
	})
}

func TestWorkThatGoesOnWithoutTheLeaseIsReported(t *testing.T) {
	for name, handedOver := range map[string]bool{"works": false, "is handed over": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				release := make(chan struct{})
				w.work = func(ctx context.Context, _ Shard) error {
					<-ctx.Done()
					<-release
					return nil
				}
				core, lines := observer.New(zap.ErrorLevel)
				one, network := w.away("one", WithLogger(zap.New(core)))
				pass(time.Second)
				if handedOver {
					one.cancel()
					pass(time.Second)
				}
				network.set(func() { network.cut = true })
				pass(defaultLeaseDuration - 2*time.Second)
				assert.False(t, one.State().Shards[0].Overdue, "no other member works yet")
				assert.Zero(t, lines.Len())
				pass(2 * time.Second)
				assert.True(t, one.State().Shards[0].Overdue)
				assert.Equal(t, 1, lines.Len())
				assert.NoError(t, one.Alive())
				pass(defaultLeaseDuration)
				assert.Error(t, one.Alive())
				assert.Equal(t, 1, lines.Len())
				close(release)
				network.set(func() { network.cut = false })
				pass(time.Minute)
				assert.NoError(t, one.Alive())
				require.NoError(t, one.stop())
			})
		})
	}
}

func TestWorkIsToldHowMuchHasteThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		halted := make(chan time.Duration, 9)
		w.work = func(ctx context.Context, s Shard) error {
			<-ctx.Done()
			told := time.Now()
			<-controller.HardStopped(ctx)
			halted <- time.Since(told)
			return nil
		}
		one := w.start("one", optionFunc(func(o *options) { o.drain = 4 * time.Second }))
		pass(time.Second)
		require.NoError(t, one.stop())
		assert.Equal(t, 4*time.Second, <-halted)

		ctx, hardStop := controller.HardStopContext(t.Context())
		ended := make(chan error, 1)
		two := w.member("two")
		go func() { ended <- two.Run(ctx) }()
		pass(time.Second)
		hardStop()
		assert.Zero(t, <-halted, "who runs the member has no time")
		require.NoError(t, <-ended)
	})
}

func TestWorkThatEndsByItselfEndsTheMember(t *testing.T) {
	for name, ouch := range map[string]error{"error": errors.New("ouch"), "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3)
				w.work = func(ctx context.Context, s Shard) error {
					if s.Index == 1 {
						<-time.After(time.Minute)
						return ouch
					}
					<-ctx.Done()
					return nil
				}
				one := w.start("one")
				err := <-one.ended
				if ouch == nil {
					ouch = ErrReturned
				}
				assert.ErrorIs(t, err, ouch)
				assert.ErrorContains(t, err, "1/3")
				assert.Empty(t, w.load())
				w.work = nil
				two := w.start("two")
				pass(time.Second)
				assert.Equal(t, map[string]int{"two": 3}, w.load(), "all was given back")
				require.NoError(t, two.stop())
			})
		})
	}
}

func TestMembersThatKnowOfAnotherNumberOfShardsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		one := w.start("one")
		pass(time.Second)
		w.group.Shards = 5
		core, logs := observer.New(zap.WarnLevel)
		two := w.start("two", WithLogger(zap.New(core)))
		pass(time.Second)
		w.group.Shards = 2
		three := w.start("three")
		pass(time.Minute)
		assert.Equal(t, map[string]int{"one": 2}, w.load(), "three came after two, and waits for it as well")
		assert.Equal(t, Waiting, two.State().Phase)
		assert.Equal(t, Waiting, three.State().Phase)
		assert.NoError(t, two.Ready(), "a rollout goes on")
		waits := logs.FilterMessage("member waits until members with another number of shards have left").All()
		require.Len(t, waits, 1)
		assert.EqualValues(t, 5, waits[0].ContextMap()["shards"])
		require.Len(t, waits[0].ContextMap()["others"], 1)
		assert.Regexp(t, "^one.*: 2$", waits[0].ContextMap()["others"].([]any)[0])
		assert.Regexp(t, `one\S*: 2 of 2`, facts(two)["members"])
		require.NoError(t, one.stop())
		pass(time.Second)
		assert.Equal(t, map[string]int{"two": 5}, w.load())
		require.NoError(t, two.stop())
		pass(time.Second)
		assert.Equal(t, map[string]int{"three": 2}, w.load())
		require.NoError(t, three.stop())
		assert.Empty(t, w.clash())
	})
}

func TestMemberWhoseLeaseIsDeletedByHandJoinsAnewAndNothingOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		one, network := w.away("one")
		pass(time.Second)
		two := w.start("two")
		pass(time.Second)
		deleted := one.State().Incarnation
		network.set(func() { network.cut = true }) // it does not hear of it
		require.NoError(t, w.client().Leases("default").Delete(t.Context(), memberLease("foos", deleted), metav1.DeleteOptions{}))
		pass(8 * time.Second)
		assert.Equal(t, map[string]int{"one": 2, "two": 2}, w.load())
		pass(defaultLeaseDuration)
		assert.Equal(t, map[string]int{"two": 4}, w.load())
		network.set(func() { network.cut = false })
		pass(time.Minute)
		assert.Equal(t, map[string]int{"one": 2, "two": 2}, w.load())
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
		assert.Empty(t, w.clash())
	})
}

func TestValidKnowsWhatNothingElseHasToldYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		working := make(chan context.Context, 9)
		w.work = func(ctx context.Context, _ Shard) error {
			working <- ctx
			<-ctx.Done()
			return nil
		}
		one, machine := w.away("one")
		ctx := <-working
		shard, ok := FromContext(ctx)
		assert.True(t, ok)
		assert.Equal(t, Shard{Index: 0, Of: 1, Generation: 1}, shard)
		assert.NoError(t, CheckHeld(ctx))
		// It sleeps, and wakes up: its timers are late.
		machine.set(func() { machine.paused = true })
		pass(time.Minute)
		assert.NoError(t, ctx.Err(), "nothing has told it")
		machine.set(func() { machine.paused = false })
		assert.ErrorIs(t, CheckHeld(ctx), ErrNotHeld)
		next := <-working
		assert.Error(t, CheckHeld(ctx))
		assert.NoError(t, CheckHeld(next))
		shard, _ = FromContext(next)
		assert.Equal(t, 2, shard.Generation)
		require.NoError(t, one.stop())
		assert.ErrorIs(t, CheckHeld(next), ErrNotHeld)
		assert.ErrorIs(t, CheckHeld(t.Context()), ErrNotHeld)
		_, ok = FromContext(t.Context())
		assert.False(t, ok)
	})
}

// fixed is a clock that shows one time.
type fixed struct {
	monotonic
	at time.Time
}

func (c *fixed) now() time.Time { return c.at }

func TestValidKnowsThatTheMachineWasSuspended(t *testing.T) {
	now := time.Now()
	c := &fixed{at: now.Add(9 * time.Second)}
	k := &keeper{of: &life{Member: &Member{options: options{deadline: 10 * time.Second, clock: c}}}, renewed: now}
	assert.NoError(t, k.valid())
	c.at = now.Add(10 * time.Second)
	(*struct{ wall, monotonic int64 })(unsafe.Pointer(&c.at)).monotonic -= int64(10 * time.Second)
	require.Zero(t, c.at.Sub(now), "the monotonic clock stood still")
	assert.ErrorIs(t, k.valid(), errLost)
	k.check()
	assert.NoError(t, k.err(), "the time of day may have been set: the next renewal shows whether the lease is lost")
}

func TestLossIsSeenAfterTheHardStop(t *testing.T) {
	k := &keeper{of: &life{sight: &sight{}}, stop: func() {}}
	stopped := false
	k.of.hardStop = func() {
		stopped = true
		assert.False(t, k.mu.TryLock(), "run may see the loss, and end the work with another cause")
	}
	k.of.endRequests = func() {}
	k.lose(errLost)
	assert.True(t, stopped)
}

func TestRunOnceAtATimeAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		m := w.member("one")
		assert.Equal(t, Stopped, m.State().Phase)
		assert.Error(t, m.Ready())
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			require.NoError(t, m.WaitForSync(ctx))
			pass(time.Second)
			assert.Equal(t, map[string]int{"one": 2}, w.load())
			assert.ErrorIs(t, m.Run(t.Context()), controller.ErrRunning)
			cancel()
			require.NoError(t, <-ended)
			assert.Equal(t, Stopped, m.State().Phase)
			assert.Empty(t, m.Owned())
		}
	})
}

func TestStateTellsOfItsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		one := w.start("one")
		for len(one.Owned()) == 0 {
			<-one.Changed(one.State())
		}
		seen := one.State()
		assert.Equal(t, Sharing, seen.Phase)
		assert.Equal(t, []MemberState{{Incarnation: seen.Incarnation, Shards: 1, Of: 1}}, seen.Members)
		pass(time.Minute)
		assert.NotEqual(t, seen.Renewed, one.State().Renewed)
		select {
		case <-one.Changed(seen):
			assert.Fail(t, "a renewal is no change")
		default:
		}
		two := w.start("two")
		<-one.Changed(seen)
		pass(time.Second)
		assert.Len(t, one.State().Members, 2)
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
	})
}

func TestServerThatRefusesLeasesIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.server.Inject(reflectortest.Answer(500).On("create", "leases"))
		one := w.start("one")
		pass(time.Minute)
		assert.Equal(t, Joining, one.State().Phase)
		assert.ErrorContains(t, one.Ready(), "create the lease of a member")
		waiting, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Error(t, one.WaitForSync(waiting))
		w.server.ClearFaults()
		pass(10 * time.Second)
		assert.NoError(t, one.Ready())
		assert.Equal(t, map[string]int{"one": 1}, w.load())
		require.NoError(t, one.stop())
	})
}

func TestMembersOfNoUseAreRefused(t *testing.T) {
	w := &world{T: t, server: reflectortest.Start(t)}
	good := Group{Namespace: "default", Name: "foos", Shards: 4}
	hold := func(context.Context, Shard) error { return nil }
	client := w.client()
	_, err := New(client, good, "pod-1", hold)
	require.NoError(t, err)
	for name, make := range map[string]func() (*Member, error){
		"no client":     func() (*Member, error) { return New(nil, good, "a", hold) },
		"nothing to do": func() (*Member, error) { return New(client, good, "a", nil) },
		"no shards":     func() (*Member, error) { return New(client, Group{"default", "foos", 0}, "a", hold) },
		"many shards":   func() (*Member, error) { return New(client, Group{"default", "foos", MaxShards + 1}, "a", hold) },
		"no namespace":  func() (*Member, error) { return New(client, Group{"", "foos", 1}, "a", hold) },
		"no name":       func() (*Member, error) { return New(client, Group{"default", "", 1}, "a", hold) },
		"bad identity":  func() (*Member, error) { return New(client, good, "A b", hold) },
		"half seconds":  func() (*Member, error) { return New(client, good, "a", hold, WithTimes(1500*time.Millisecond, 1, 1)) },
		"no time to end": func() (*Member, error) {
			return New(client, good, "a", hold, WithTimes(10*time.Second, 9*time.Second, 1))
		},
		"one renewal": func() (*Member, error) {
			return New(client, good, "a", hold, WithTimes(10*time.Second, 8*time.Second, 5*time.Second))
		},
	} {
		_, err := make()
		assert.Error(t, err, name)
	}
	_, err = New(client, good, "a", Working(nil))
	assert.ErrorIs(t, err, controller.ErrIncomplete)
	_, err = New(nil, good, "a", hold)
	assert.ErrorIs(t, err, controller.ErrIncomplete)
}

func facts(m *started) map[string]string {
	all := map[string]string{}
	for _, item := range m.StatusItems() {
		all[item[0]] = item[1]
	}
	return all
}

func TestFactsSayWhoHasWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		one, two := w.start("one"), w.start("two")
		pass(time.Second)
		first, second := facts(one), facts(two)
		assert.Equal(t, "Sharing", first["does"])
		assert.Equal(t, "2 of 4 shards", first["has"])
		assert.Len(t, first["shards"], len("0 1"))
		assert.NotEqual(t, first["shards"], second["shards"])
		assert.NotContains(t, first, "held by nobody")
		assert.Regexp(t, `^one\S*: 2; two\S*: 2$`, first["members"])
		require.NoError(t, two.stop())
		pass(time.Second / 2) // not when the lease is renewed: two renewals at one time are no change
		assert.Equal(t, "0 1 2 3", facts(one)["shards"])
		require.NoError(t, one.stop())
		assert.Equal(t, map[string]string{"does": "Stopped"}, facts(one))
	})
}
