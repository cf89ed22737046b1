package reflector

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

func TestListThatLosesItsVersionLeavesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("held", "u", "7")}, "7"))
		var errs []error
		api := new(script).watchFails(apierrors.NewResourceExpired("expired")).list("", "", configMap("a", "u", "1"))
		r := New(api, s, WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))
		stop := running(t, r)
		synctest.Wait()
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], protocol.NoResourceVersion)
		assert.ErrorContains(t, errs[0], `reflector *v1.ConfigMap: list at resource version "7": list has no resource version`)
		assert.Equal(t, "held@7", contents(s))
		state := r.State()
		assert.Equal(t, BackingOff, state.Phase)
		assert.ErrorIs(t, state.Err, protocol.NoResourceVersion)
		assert.Equal(t, 1, state.Attempt)
		assert.True(t, state.NextRetry.After(time.Now()))
		require.NoError(t, stop())
	})
}

func TestSyncedIsLatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script).listFails(errors.New("no")).list("1", "")
		r := New(api, newStore())
		stop := running(t, r)
		synctest.Wait()
		assert.False(t, closed(r.Synced()))
		<-time.After(time.Minute)
		assert.True(t, closed(r.Synced()))
		require.NoError(t, stop())
		assert.True(t, closed(r.Synced()))
	})
}

// resumable is a store that counts the calls of Resumed.
type resumable struct {
	store.Store[*corev1.ConfigMap]
	resumed atomic.Int32
}

func (s *resumable) Resumed() { s.resumed.Add(1) }

func TestStoreIsToldThatAWatchWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := store.New(store.ObjectKey[*corev1.ConfigMap])
		require.NoError(t, inner.Replace(nil, "5"))
		s := &resumable{Store: inner}
		api := new(script).watchFails(errors.New("no"))
		r := New(api, store.Store[*corev1.ConfigMap](s))
		assert.Zero(t, s.resumed.Load())
		stop := running(t, r)
		synctest.Wait()
		assert.Zero(t, s.resumed.Load(), "the server refused it")
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.True(t, closed(r.Synced()))
		assert.EqualValues(t, 1, s.resumed.Load())
		assert.Equal(t, "5", s.ResourceVersion())
	})
}

func TestStateTellsWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		r := New(api, newStore())
		assert.Equal(t, Stopped, r.State().Phase)
		seen := r.State()
		changed := r.Changed(seen)
		assert.False(t, closed(changed))

		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, Listing, r.State().Phase)
		assert.True(t, closed(changed))
		assert.True(t, closed(r.Changed(seen)), "also if it is asked late")
		assert.False(t, closed(r.Changed(r.State())))
		assert.Equal(t, time.Now(), r.State().Since)
		require.NoError(t, stop())

		api.list("7", "").watchOpen()
		stop = running(t, r)
		synctest.Wait()
		state := r.State()
		assert.Equal(t, Watching, state.Phase)
		assert.Equal(t, "7", state.ResourceVersion)
		assert.Equal(t, time.Now(), state.LastContact)
		assert.NoError(t, state.Err)
		require.NoError(t, stop())
		assert.Equal(t, Stopped, r.State().Phase)
	})
}

func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		r := New(new(script).listFails(errors.New("no")), newStore(), WithName("maps"), WithLogger(zap.New(core)))
		require.NoError(t, runOnce(t, r))
		require.Equal(t, 1, logs.Len())
		assert.Equal(t, "maps", logs.All()[0].ContextMap()["reflector"])
		assert.Equal(t, `reflector maps: list at resource version "0": no`, logs.All()[0].ContextMap()["error"])
	})
}

func TestStateNeedsNoLockOfTheStore(t *testing.T) {
	// Under -race: a store need not be safe for whoever asks for the state.
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("1", "").watchOpen(added(configMap("a", "u", "2")), added(configMap("b", "u2", "3")))
		s := &lastVersion{}
		r := New(api, s)
		stop := running(t, r)
		for r.State().ResourceVersion != "3" {
			// Asking while the reflector writes is the point.
		}
		require.NoError(t, stop())
		assert.Equal(t, "3", s.version)
	})
}

// lastVersion is a store that keeps but a version, and has no lock.
type lastVersion struct {
	store.Store[*corev1.ConfigMap]
	version string
}

func (s *lastVersion) Add(o *corev1.ConfigMap) error { s.version = o.ResourceVersion; return nil }

func (s *lastVersion) Replace(_ []*corev1.ConfigMap, version string) error {
	s.version = version
	return nil
}

func (s *lastVersion) ResourceVersion() string { return s.version }

func TestFailuresOfTheClientAreNoContact(t *testing.T) {
	for name, events := range map[string][]watch.Event{"the end": nil, "an event that the client made": {errorEvent(errUndecoded())}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := new(script).list("10", "")
				api.watches = append(api.watches, func() (watch.Interface, error) {
					w := api.stream(nil)
					time.AfterFunc(time.Minute, func() {
						for _, e := range events {
							w.result <- e
						}
						w.Stop()
					})
					return w, nil
				})
				for range 10 {
					api.watchFails(errors.New("no route"))
				}
				r := New(api, newStore())
				began := time.Now()
				stop := running(t, r)
				<-time.After(time.Minute)
				synctest.Wait()
				assert.Equal(t, Opening, r.State().Phase)
				assert.Equal(t, began, r.State().LastContact)
				require.NoError(t, stop())
			})
		})
	}
}

func TestLastFailureStaysAfterRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.listFails(errors.New("no route")).list("10", "")
		api.watchOpen()
		r := New(api, newStore())
		began := time.Now()
		stop := running(t, r)
		synctest.Wait()
		require.Equal(t, BackingOff, r.State().Phase)
		failed := r.State()
		assert.ErrorContains(t, failed.LastErr, "no route")
		assert.Equal(t, failed.Err, failed.LastErr)
		assert.Equal(t, began, failed.LastErrTime)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, Watching, r.State().Phase)
		assert.NoError(t, r.State().Err)
		assert.Equal(t, failed.LastErr, r.State().LastErr)
		assert.Equal(t, began, r.State().LastErrTime)
		require.NoError(t, stop())
	})
}

func TestStoreThatFailedIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.streams = true
		closing := bookmark("10")
		closing.Object.(*corev1.ConfigMap).Annotations = map[string]string{"k8s.io/initial-events-end": "true"}
		api.watchOpen(closing)
		var r *KubernetesResourceReflector[*corev1.ConfigMap]
		var phases []Phase
		r = New(api, &failingReplace{Store: newStore()}, WithErrorHandler(func(context.Context, error) { phases = append(phases, r.State().Phase) }))
		stop := running(t, r)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []Phase{Listing}, phases, "it never watched")
	})
}

// failingReplace is a store that takes no list.
type failingReplace struct {
	store.Store[*corev1.ConfigMap]
}

func (s *failingReplace) Replace([]*corev1.ConfigMap, string) error { return errors.New("disk full") }
