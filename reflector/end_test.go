package reflector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

func TestEndOfTheContextEndsEveryWait(t *testing.T) {
	for name, api := range map[string]*script{
		"a list":    new(script),
		"a watch":   new(script).list("1", ""),
		"a backoff": new(script).listFails(apierrors.NewTooManyRequests("busy", 10000)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := running(t, New(api, newStore()))
				synctest.Wait()
				before := time.Now()
				require.NoError(t, stop())
				assert.Equal(t, before, time.Now())
				assert.Zero(t, api.openWatches())
			})
		})
	}
	t.Run("everything", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		api := new(script)
		require.NoError(t, New(api, newStore()).Run(ctx))
		assert.Empty(t, api.seen(), "a context that has ended before: no request at all")
	})
}

func TestRunWaitsForTheWatchToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowWatch{result: make(chan watch.Event)}
		api := new(script).list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return w, nil })
		stop := running(t, New(api, newStore()))
		synctest.Wait()
		before := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, time.Second, time.Since(before))
	})
}

// slowWatch takes a second to end.
type slowWatch struct{ result chan watch.Event }

func (w *slowWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *slowWatch) Stop() { time.AfterFunc(time.Second, func() { close(w.result) }) }

func TestWatchThatDoesNotEndDoesNotHoldUpRun(t *testing.T) {
	// apimachinery's ProxyWatcher does not close its channel.
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return watch.NewProxyWatcher(make(chan watch.Event)), nil })
		stop := running(t, New(api, newStore()))
		synctest.Wait()
		before := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, stream.CloseTimeout, time.Since(before))
	})
}
