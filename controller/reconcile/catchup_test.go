package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/term"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold reconcile-R10.

// took is a world whose ConfigMap a was deleted, which the cache does not show until release is
// closed: its watch stands still.
func tookOver(t *testing.T) (w *world, release chan struct{}) {
	w, release = newWorld(t), make(chan struct{})
	// The bookmark after the initial events is the first event.
	w.server.Inject(reflectortest.StallAfterEvents(2, release).On("watch", "configmaps").Times(1))
	stop := w.run(runFunc(func(ctx context.Context) error { <-ctx.Done(); return nil }))
	t.Cleanup(func() { require.NoError(t, stop()) })
	synctest.Wait()
	w.create(configMap("a"))
	require.NoError(t, w.server.Delete(configMap("a")))
	<-time.After(time.Minute)
	require.Equal(t, 1, w.configMaps.Cache().Len())
	return w, release
}

// led runs a reconciler in a term that begins now, and notes which objects its calls saw.
func (w *world) led(opts ...Option) (seen *list, stop func() error) {
	seen = &list{}
	r := New("test", w.configMaps, func(_ context.Context, key store.Key, c *corev1.ConfigMap) (Result, error) {
		if c == nil {
			seen.add(key.Name + " is gone")
		} else {
			seen.add(key.Name)
		}
		return Result{}, nil
	}, opts...)
	return seen, runMember(w.t, runFunc(func(ctx context.Context) error { return r.Run(term.Begin(ctx)) }))
}

func TestNewTermMakesNoCallOnACacheThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := tookOver(t)
		seen, stop := w.led()
		<-time.After(50 * time.Second)
		assert.Empty(t, seen.take())
		close(release)
		<-time.After(5 * time.Second)
		assert.NotContains(t, seen.take(), "a", "the deleted object")
		require.NoError(t, stop())
	})
}

func TestNewTermMakesItsCallsWhenItHasWaitedLongEnough(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []Option
		wait time.Duration
	}{
		"by default": {nil, time.Minute},
		"shorter":    {[]Option{WithCatchUpTimeout(10 * time.Second)}, 10 * time.Second},
		"never":      {[]Option{WithCatchUpTimeout(0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, release := tookOver(t)
				defer close(release)
				seen, stop := w.led(tc.opts...)
				if tc.wait > 0 {
					<-time.After(tc.wait - time.Millisecond)
					assert.Empty(t, seen.take())
				}
				<-time.After(time.Second)
				assert.Equal(t, []string{"a"}, seen.take())
				require.NoError(t, stop())
			})
		})
	}
}

func TestRunThatEndsWhileItCatchesUpMakesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := tookOver(t)
		defer close(release)
		seen, stop := w.led()
		<-time.After(time.Second)
		require.NoError(t, stop())
		assert.Empty(t, seen.take())
	})
}

func TestProgramThatStartsWithConsistentListsAsksForNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var got list
		stop := w.run(New("test", w.configMaps, got.noting(), w.ofSecrets))
		<-time.After(time.Second)
		assert.Equal(t, []string{"a"}, got.take())
		for _, r := range w.server.Requests() {
			assert.NotEqual(t, "1", r.Query.Get("limit"))
		}
		require.NoError(t, stop())
	})
}

// A restored cache has the state of an earlier process until the server has accepted its watch.
func TestNoCallIsMadeOnARestoredCacheBeforeItIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("deleted"), secret("of-created", "created"))
		deleted := configMap("deleted")
		require.NoError(t, w.server.Get(deleted))
		require.NoError(t, w.configMaps.Restore([]*corev1.ConfigMap{deleted}, deleted.ResourceVersion))
		w.create(configMap("created"))
		require.NoError(t, w.server.Delete(configMap("deleted")))
		release := make(chan struct{})
		w.server.Inject(reflectortest.Stall(release).On("", "configmaps"))

		var calls list
		r := New("test", w.configMaps, func(_ context.Context, key store.Key, c *corev1.ConfigMap) (Result, error) {
			calls.addHeld(key, c != nil)
			return Result{}, nil
		}, w.ofSecrets)
		stop := w.run(r)
		<-time.After(10 * time.Minute)
		assert.Empty(t, calls.take())
		close(release)
		<-time.After(time.Minute)
		assert.Equal(t, []string{"created true", "deleted false"}, sorted(calls.take()))
		require.NoError(t, stop())
	})
}
