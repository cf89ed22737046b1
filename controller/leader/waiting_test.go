package leader

import (
	"context"
	"errors"
	"net/http"
	"strings"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slowly returns the config of a server whose requests take a time.
func slowly(server *reflectortest.Server, takes time.Duration) *rest.Config {
	config := server.Config()
	config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(takes):
				return to.RoundTrip(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
	})
	return config
}

// leader-L7
func TestMissingLeaseIsTakenOnASlowNetwork(t *testing.T) {
	for _, takes := range []time.Duration{5 * time.Second, 6 * time.Second, 8 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, one := reflectortest.Start(t), newLed()
				begun := time.Now()
				stop := start(t, New(lockOf(t, slowly(server, takes), "one"), one))
				soon(t, one.began)
				assert.Less(t, time.Since(begun), 100*time.Second)
				require.NoError(t, stop())
			})
		})
	}
}

func TestLeaseIsKeptWhileARenewalTakesLessThanHalfOfTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, one := reflectortest.Start(t), newLed()
		stop := start(t, New(lockOf(t, slowly(server, 4900*time.Millisecond), "one"), one))
		soon(t, one.began)
		<-time.After(time.Hour)
		assert.Empty(t, one.ended)
		require.NoError(t, stop())
	})
}

func TestLeaseIsGivenUpOnASlowNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, one := reflectortest.Start(t), newLed()
		one.fails = errors.New("ouch")
		assert.ErrorIs(t, New(lockOf(t, slowly(server, 6*time.Second), "one"), one).Run(t.Context()), one.fails)
		assert.Empty(t, *leaseOf(server).Spec.HolderIdentity)
	})
}

// leader-L7
func TestCandidateSaysOnceWhyItDoesNotLead(t *testing.T) {
	free := &coordinationv1.LeaseSpec{HolderIdentity: ptr(""), LeaseDurationSeconds: ptr(int32(1))}
	for name, c := range map[string]struct {
		lease *coordinationv1.LeaseSpec
		fault reflectortest.Fault
		says  string
		level string
	}{
		"reads are forbidden":     {free, reflectortest.Answer(403).On("get", "leases"), "cannot read the lease", "warn"},
		"creation is forbidden":   {nil, reflectortest.Answer(403).On("create", "leases"), "cannot create the lease", "warn"},
		"updates are forbidden":   {free, reflectortest.Answer(403).On("update", "leases"), "cannot update the lease", "warn"},
		"updates always conflict": {free, reflectortest.Answer(409).On("update", "leases"), "cannot update the lease", "info"},
		"the server does not run": {free, reflectortest.Refuse(), "cannot read the lease", "warn"},
		"the server is silent":    {free, reflectortest.Stall(nil), "cannot read the lease", "warn"},
		"updates are lost":        {free, reflectortest.Stall(nil).On("update", "leases"), "cannot update the lease", "warn"},
		"a long lease of another process": {
			&coordinationv1.LeaseSpec{HolderIdentity: ptr(strings.Repeat("two", 1000)), LeaseDurationSeconds: ptr(int32(1<<31 - 1))},
			reflectortest.Answer(500).On("list", "pods"), "far longer", "warn",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, one := reflectortest.Start(t), newLed()
				replace(server, c.lease)
				server.Inject(c.fault)
				core, lines := observer.New(zap.DebugLevel)
				stop := start(t, New(newLock(t, server, "one"), one, WithLogger(zap.New(core))))
				<-time.After(time.Hour)
				require.Len(t, lines.All(), 1)
				line := lines.All()[0]
				assert.Contains(t, line.Message, "not leading: ")
				assert.Contains(t, line.Message, c.says)
				assert.Equal(t, c.level, line.Level.String())
				assert.Equal(t, "default/lease", line.ContextMap()["lease"])
				assert.Equal(t, defaultRetryPeriod, line.ContextMap()["tryAgainIn"])
				assert.Empty(t, one.began)
				holder, _ := line.ContextMap()["holder"].(string)
				assert.LessOrEqual(t, len(holder), 256)
				server.ClearFaults()
				require.NoError(t, stop())
			})
		})
	}
}

// leader-L7
func TestCandidateSaysForWhomItWaits(t *testing.T) {
	for name, c := range map[string]struct {
		lease *coordinationv1.LeaseSpec
		says  string
	}{
		"missing":            {nil, "the lease was missing"},
		"empty":              {&coordinationv1.LeaseSpec{}, "no holder"},
		"of this name":       {&coordinationv1.LeaseSpec{HolderIdentity: ptr("one"), LeaseDurationSeconds: ptr(int32(15))}, "names this process"},
		"of another process": {&coordinationv1.LeaseSpec{HolderIdentity: ptr("two"), LeaseDurationSeconds: ptr(int32(15))}, "another process holds the lease"},
		"nonsense": {
			&coordinationv1.LeaseSpec{
				HolderIdentity: ptr("two"), LeaseDurationSeconds: ptr(int32(-7)), LeaseTransitions: ptr(int32(-1)),
				RenewTime: ptr(metav1.NewMicroTime(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))),
			}, "another process holds the lease",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, one := reflectortest.Start(t), newLed()
				replace(server, c.lease)
				core, lines := observer.New(zap.DebugLevel)
				begun := time.Now()
				stop := start(t, New(newLock(t, server, "one"), one, WithLogger(zap.New(core))))
				soon(t, one.began)
				assert.GreaterOrEqual(t, time.Since(begun), defaultLeaseDuration)
				assert.Less(t, time.Since(begun), 20*time.Second)
				require.Len(t, lines.All(), 1)
				assert.Contains(t, lines.All()[0].Message, c.says)
				require.NoError(t, stop())
			})
		})
	}
}

func TestFailureThatComesBackIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, one := reflectortest.Start(t), newLed()
		replace(server, &coordinationv1.LeaseSpec{HolderIdentity: ptr("two"), LeaseDurationSeconds: ptr(int32(1 << 20))})
		core, lines := observer.New(zap.WarnLevel)
		stop := start(t, New(newLock(t, server, "one"), one, WithLogger(zap.New(core))))
		for range 3 {
			lines.TakeAll()
			server.Inject(reflectortest.Answer(500).On("get", "leases"))
			<-time.After(10 * time.Minute)
			assert.Equal(t, 1, lines.FilterMessageSnippet("cannot read").Len())
			server.ClearFaults()
			<-time.After(10 * time.Minute)
		}
		lines.TakeAll()
		for range 30 { // now and then
			server.Inject(reflectortest.Answer(500).On("get", "leases"))
			<-time.After(5 * time.Second)
			server.ClearFaults()
			<-time.After(5 * time.Second)
		}
		assert.LessOrEqual(t, lines.Len(), 6, "once a minute")
		require.NoError(t, stop())
	})
}

func TestLostLeaseSaysWhyItWasNotRenewed(t *testing.T) {
	for name, c := range map[string]struct {
		fault reflectortest.Fault
		says  string
	}{
		"refused": {reflectortest.Answer(403).On("", "leases"), "forbidden"},
		"silent":  {reflectortest.Stall(nil).On("", "leases"), "half of the renew deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, one := reflectortest.Start(t), newLed()
				core, lines := observer.New(zap.DebugLevel)
				stop := start(t, New(newLock(t, server, "one"), one, WithLogger(zap.New(core))))
				soon(t, one.began)
				<-time.After(time.Minute)
				server.Inject(c.fault)
				soon(t, one.ended)
				synctest.Wait()
				lost := lines.FilterMessage("lease lost")
				require.Equal(t, 1, lost.Len())
				assert.Contains(t, lost.All()[0].ContextMap()["because"], c.says)
				server.ClearFaults()
				require.NoError(t, stop())
			})
		})
	}
}

// leader-L7
func TestRenewalThatIsGivenUpDoesNotHideWhyTheOneBeforeFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		lock := &heldLock{Interface: lockOf(t, server.Config(), "one"), renewed: time.Now(), limit: defaultRenewDeadline}
		_, _, err := lock.Interface.Get(t.Context())
		require.True(t, apierrors.IsNotFound(err))
		require.NoError(t, lock.Interface.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "one"}))
		server.Inject(reflectortest.Answer(403).On("", "leases"))
		require.Error(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "one"}))
		ended, end := context.WithCancel(t.Context())
		end()
		require.Error(t, lock.Update(ended, resourcelock.LeaderElectionRecord{HolderIdentity: "one"}))
		assert.ErrorContains(t, lock.expired(), "forbidden")
	})
}

// leader-L5
func TestTermThatIsLostBeforeItsWorkBeginsEndsTheWorkAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &heldLock{Interface: lockOf(t, reflectortest.Start(t).Config(), "one"), renewed: time.Now(), limit: defaultRenewDeadline}
		lock.check(&resourcelock.LeaderElectionRecord{HolderIdentity: "two"}, nil) // a renewal was faster
		work, lose := context.WithCancel(t.Context())
		defer lock.begin(time.Hour, lose)()
		assert.Error(t, work.Err())
	})
}

// leader-L5
func TestRenewalOfADeletedLeaseEndsTheTermThoughReadsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, one := reflectortest.Start(t), newLed()
		server.Inject(reflectortest.Answer(403).On("watch", "leases"))
		stop := start(t, New(newLock(t, server, "one"), one))
		soon(t, one.began)
		<-time.After(time.Minute + time.Second/2)
		server.Inject(reflectortest.Answer(500).On("get", "leases"))
		replace(server, nil)
		deleted := time.Now()
		assert.ErrorIs(t, soon(t, one.ended), controller.ErrStopNow)
		assert.LessOrEqual(t, time.Since(deleted), defaultRetryPeriod)
		server.ClearFaults()
		require.NoError(t, stop())
	})
}
