package reconcile

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestSeveralObserversAreAllTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		all := []*audience{{}, {}, {}}
		opts := []Option{WithObserver(all[0]), WithObserver(nil), WithObserver(inattentive{})}
		for _, one := range all[1:] {
			opts = append(opts, WithObserver(one))
		}
		stop := w.run(New("maps", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
			assert.Equal(t, "observer", ctx.Value(contextKey{}))
			return Result{}, nil
		}, opts...))
		synctest.Wait()
		require.NoError(t, stop())
		for _, one := range all {
			assert.Len(t, one.triggers.take(), 1)
			assert.Len(t, one.calls.take(), 1)
			assert.Equal(t, []string{"0s <nil>"}, one.ends.take())
		}
	})
}
