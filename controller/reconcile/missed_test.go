package reconcile

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (w *world) secretsOnServer() int {
	secrets, err := reflectortest.List[*corev1.Secret](w.server, "ns")
	require.NoError(w.t, err)
	return len(secrets)
}

// deleteSecrets deletes all Secrets on the server, and has the next watch begin with a list.
func (w *world) deleteSecrets() {
	secrets, err := reflectortest.List[*corev1.Secret](w.server, "ns")
	require.NoError(w.t, err)
	for _, s := range secrets {
		require.NoError(w.t, w.server.Delete(s))
	}
	require.NoError(w.t, w.server.Compact(w.server.ResourceVersion()))
}

// The watch of the children stalls. A child is created and deleted meanwhile, and the list that follows shows neither.
func TestObjectThatWasDeletedBeforeTheCacheShowedItIsMissed(t *testing.T) {
	t.Run("while the key waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			release := w.deafen(1)
			w.create(configMap("a"))
			var got list
			stop := w.run(New("test", w.configMaps, withObject(w.securing(&got)), w.ofSecrets))
			synctest.Wait()
			w.deleteSecrets()
			release()
			<-time.After(time.Minute)
			assert.Equal(t, []string{"a0", "a0", "a1"}, got.take())
			require.NoError(t, stop())
		})
	})
	t.Run("during the call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			release := w.deafen(1)
			w.create(configMap("a"))
			var got list
			stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
				first := len(got.peek()) == 0
				result, err := w.securing(&got)(ctx, key)
				if first {
					w.deleteSecrets()
					release()
					<-time.After(time.Minute)
				}
				return result, err
			}, w.ofSecrets, IgnoreOwnWrites()))
			<-time.After(2 * time.Minute)
			assert.Equal(t, []string{"a0", "a0"}, got.take())
			require.NoError(t, stop())
		})
	})
}

// One GET tells a child that is gone from one that the selector leaves out by now.
func TestObjectThatTheSelectorLeavesOutSinceIsNotMissed(t *testing.T) {
	for name, deletes := range map[string]bool{"deleted": true, "left out": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				selected := labels.Set{"some": "body"}
				w := newWorld(t, informer.WithReflector(reflector.WithLabelSelector(selected.AsSelector())))
				var got list
				release, stop := w.missSecret(&got)
				want := []string{"a"}
				if deletes {
					want = append(want, "a")
				} else {
					w.update(secret("s", "a"))
				}
				if deletes {
					w.deleteSecrets()
				} else {
					require.NoError(t, w.server.Compact(w.server.ResourceVersion()))
				}
				before := len(w.server.Requests())
				release()
				<-time.After(time.Minute)
				assert.Equal(t, want, got.take())
				gets := 0
				for _, r := range w.server.Requests()[before:] {
					if r.Verb == "get" && r.Resource == "secrets" {
						gets++
					}
				}
				assert.Equal(t, 1, gets)
				require.NoError(t, stop())
			})
		})
	}
}

// missSecret runs a reconciler whose call creates a Secret that its informer selects, while the watch of the
// Secrets stalls. A second call creates none.
func (w *world) missSecret(got *list) (release func(), stop func() error) {
	release = w.deafen(1)
	w.create(configMap("a"))
	stop = w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
		got.add(key.Name)
		if len(got.peek()) > 1 {
			return Result{}, nil
		}
		s := secret("s", "a")
		s.Labels = labels.Set{"some": "body"}
		_, err := w.creator.Create(ctx, s, metav1.CreateOptions{})
		return Result{}, err
	}, w.ofSecrets))
	synctest.Wait()
	return release, stop
}

// The server that comes back fails at first, which is also why the watch stalled.
func TestObjectIsNotMissedIfTheServerFailsWhenItIsAskedFor(t *testing.T) {
	for name, fault := range map[string]reflectortest.Fault{
		"once":        reflectortest.Answer(503).Times(1),
		"for minutes": reflectortest.Answer(500).Times(20),
		"unreachable": reflectortest.Refuse().Times(1),
		"silent":      reflectortest.Stall(nil).Times(1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				selected := labels.Set{"some": "body"}
				w := newWorld(t, informer.WithReflector(reflector.WithLabelSelector(selected.AsSelector())))
				var got list
				release, stop := w.missSecret(&got)
				w.server.Inject(fault.On("get", "secrets"))
				w.deleteSecrets()
				release()
				<-time.After(10 * time.Minute)
				assert.Equal(t, []string{"a", "a"}, got.take())
				require.NoError(t, stop())
			})
		})
	}
}

// The function creates one more in each call: an event that no watch would bring would never let it rest.
func TestObjectThatTheClientHidesIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.secrets = informer.New(w.client.CoreV1().Secrets("other"))
		w.ofSecrets = Owns(w.secrets, schema.GroupKind{Kind: "ConfigMap"})
		w.create(configMap("a"))
		var got list
		stop := w.run(New("test", w.configMaps, withObject(w.securing(&got)), w.ofSecrets))
		synctest.Wait()
		w.server.SendBookmarks()
		<-time.After(time.Minute)
		assert.Equal(t, []string{"a0"}, got.take())
		require.NoError(t, stop())
	})
}

func TestReconcilerThatMayNotAskForAnObjectSaysThatItMayMissIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		selected := labels.Set{"some": "body"}
		w := newWorld(t, informer.WithReflector(reflector.WithLabelSelector(selected.AsSelector())))
		release := w.deafen(1)
		w.create(configMap("a"))
		w.server.Inject(reflectortest.Answer(403).On("get", "secrets"))
		core, logs := observer.New(zap.WarnLevel)
		calls := 0
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
			calls++
			s := secret("s"+strconv.Itoa(calls), "a")
			s.Labels = selected
			_, err := w.creator.Create(ctx, s, metav1.CreateOptions{})
			return Result{}, err
		}, w.ofSecrets, WithLogger(zap.New(core))))
		synctest.Wait()
		w.deleteSecrets()
		release()
		<-time.After(time.Minute)
		assert.Equal(t, 1, calls)
		require.NoError(t, stop())
		lines := logs.FilterMessage("cache does not show what was written").All()
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0].ContextMap()["error"], "allow the program to get the objects")
	})
}

// The server is restored from a backup that is as new as the cache, and writes of others take it past the version of
// the lost write, so no version of the cache is ever lowered.
func TestKeyIsReconciledAfterARestoreToTheStateOfTheCache(t *testing.T) {
	for _, lost := range []string{"create", "update"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.create(configMap("a"))
				if lost == "update" {
					w.create(secret("s", "a"))
				}
				release := w.deafen(w.secretsOnServer() + 1) // and the bookmark
				backup := w.server.ResourceVersion()
				var got list
				stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
					if key.Name != "a" {
						return Result{}, nil
					}
					var err error
					held, ok := w.secrets.Cache().Get(store.Key{Namespace: "ns", Name: "s"})
					switch {
					case !ok:
						got.add("create")
						_, err = w.creator.Create(ctx, secret("s", "a"), metav1.CreateOptions{})
					case lost == "update" && len(held.Data) == 0:
						got.add("update")
						held = held.DeepCopy()
						held.Data = map[string][]byte{"a": nil}
						_, err = w.creator.Update(ctx, held, metav1.UpdateOptions{})
					}
					return Result{}, err
				}, w.ofSecrets))
				synctest.Wait()
				assert.Equal(t, []string{lost}, got.peek())
				require.NoError(t, w.server.Restore(backup))
				for i := range 5 {
					w.create(secret("other"+strconv.Itoa(i), "b"))
				}
				release()
				<-time.After(5 * time.Minute)
				assert.Equal(t, []string{lost, lost}, got.take())
				require.NoError(t, stop())
			})
		})
	}
}
