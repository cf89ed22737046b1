package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests of package controller hold what a hard stop does; this one, that it reaches the drain of
// a reconciler.
func TestHardStopEndsADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"))
		var causes []error
		r := New("test", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return Result{}, ctx.Err()
		}, WithDrainTimeout(time.Hour))
		running, end := context.WithCancel(t.Context())
		stoppable, hardStop := controller.WithHardStop(running)
		stop := w.run(runFunc(func(context.Context) error { return r.Run(stoppable) }))
		synctest.Wait()
		end()
		<-time.After(time.Minute)
		assert.Empty(t, causes, "it has time to finish")
		before := time.Now()
		hardStop()
		var left *eventqueue.DrainError
		require.ErrorAs(t, stop(), &left)
		assert.Zero(t, time.Since(before))
		assert.Equal(t, []error{controller.ErrStopNow}, causes)
		assert.Equal(t, controller.ErrStopNow, left.Cause)
		assert.Len(t, left.Pending, 2)
	})
}
