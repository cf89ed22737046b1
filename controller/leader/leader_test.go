package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// led is something that is led: it tells when it begins, and why it ends.
type led struct {
	began chan struct{}
	ended chan error
	takes time.Duration // to end
	fails error         // at once, if there is one
}

func newLed() *led { return &led{began: make(chan struct{}, 9), ended: make(chan error, 9)} }

func (l *led) Run(ctx context.Context) error {
	l.began <- struct{}{}
	if l.fails != nil {
		return l.fails
	}
	<-ctx.Done()
	if context.Cause(ctx) != controller.ErrHalt {
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
		assert.ErrorIs(t, first.Run(t.Context()), ErrRunning)

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
			assert.ErrorIs(t, <-one.ended, controller.ErrHalt, name)
			assert.Less(t, time.Since(renewed), DefaultLeaseDuration-2*time.Second, name)
			<-time.After(time.Minute)
			assert.Empty(t, one.began)
			server.ClearFaults()
			<-one.began // it leads again
		}
		require.NoError(t, stop())
	})
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

func TestElectorsOfNoUseSaySo(t *testing.T) {
	lock := &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "one"}}
	for _, e := range []*Elector{
		New(nil, newLed()), New(lock, nil), New(&resourcelock.LeaseLock{}, newLed()),
		New(lock, newLed(), WithTimes(12*time.Second, 10*time.Second, 2*time.Second)),
	} {
		assert.Error(t, e.Run(t.Context()))
	}
}
