package leader

import (
	"context"
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
)

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
