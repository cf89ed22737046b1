package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addHeld adds a key, and whether its object is there.
func (l *list) addHeld(key store.Key, held bool) { l.add(fmt.Sprintf("%s %t", key.Name, held)) }

// partly is a world whose ConfigMaps are of an informer that a test scopes.
func partly(t *testing.T, primary *informer.Informer[*corev1.ConfigMap]) (*world, *list, *Reconciler[*corev1.ConfigMap]) {
	w := newWorld(t)
	if primary != nil {
		w.configMaps = primary
	}
	log := &list{}
	r := New("parts", w.configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
		_, held := w.configMaps.Cache().Get(key)
		log.addHeld(key, held)
		return Result{RequeueAfter: time.Hour}, nil
	}, w.ofSecrets)
	return w, log, r
}

func TestKeysThatLeftAreNotReconciled(t *testing.T) {
	for name, shard := range map[string]store.Shard{
		"a namespace": {},
		"a shard":     {By: store.ByNamespace, To: store.ShardHash("ns") + 1},
	} {
		scope := store.Scope{Namespace: "ns"}
		if name == "a shard" {
			scope.Namespace = "" // which the shard selects
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scopes := scoped.New(store.ObjectKey[*corev1.ConfigMap])
				w, log, r := partly(t, scopes.Informer())
				add := func() {
					require.NoError(t, scoped.Add(scopes, scope, w.client.CoreV1().ConfigMaps(scope.Namespace), reflector.WithShard(shard)))
					require.NoError(t, w.configMaps.WaitForSync(t.Context()))
				}
				require.NoError(t, scoped.Add(scopes, store.Scope{Cluster: "other"}, w.client.CoreV1().ConfigMaps("none")))
				w.create(configMap("a"), configMap("b"), secret("of-a", "a"))
				stop := w.run(r)
				add()
				synctest.Wait()
				// The Secret and its owner may each trigger a reconcile, but none before the owner
				// is listed.
				assert.Equal(t, []string{"a true", "b true"}, slices.Compact(sorted(log.take())))

				w.delete(configMap("b"))
				synctest.Wait()
				assert.Equal(t, []string{"b false"}, sorted(log.take()), "what is deleted is")

				require.NoError(t, scopes.Drop(scope))
				synctest.Wait()
				assert.Empty(t, log.take(), "what left is not")
				w.create(secret("also-of-a", "a"))
				synctest.Wait()
				assert.Empty(t, log.take(), "nor because of a secondary object")
				<-time.After(2 * time.Hour)
				synctest.Wait()
				assert.Empty(t, log.take(), "nor because it was to be reconciled again")

				add()
				synctest.Wait()
				assert.Equal(t, []string{"a true"}, sorted(log.take()), "what came back is")
				w.create(secret("once-more-of-a", "a"))
				synctest.Wait()
				assert.Equal(t, []string{"a true"}, sorted(log.take()))
				require.NoError(t, stop())
			})
		})
	}
}

func TestSecondaryObjectsOfAnotherShardsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log, _ := partly(t, nil)
		mine := store.Shard{By: store.ByNamespace, To: store.ShardHash("ns")} // all but this namespace
		w.configMaps = informer.New(w.client.CoreV1().ConfigMaps(""), informer.WithReflector(reflector.WithShard(mine)))
		r := New("parts", w.configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			log.addHeld(key, false)
			return Result{}, nil
		}, w.ofSecrets)
		w.create(configMap("a"), secret("of-a", "a"))
		stop := w.run(r)
		synctest.Wait()
		assert.Empty(t, log.take(), "its owner is somebody else's, and exists")
		require.NoError(t, stop())
	})
}

func TestOrphansAreReconciledWhereEverythingIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log, r := partly(t, nil)
		w.create(secret("of-a", "a"))
		stop := w.run(r)
		synctest.Wait()
		assert.Equal(t, []string{"a false"}, sorted(log.take()), "there is no such owner at all")
		require.NoError(t, stop())
	})
}

func TestDeletionInAShardIsReconciledUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.configMaps = informer.New(w.client.CoreV1().ConfigMaps(""),
			informer.WithReflector(reflector.WithShard(store.Shard{By: store.ByNamespace, To: store.ShardHash("ns") + 1})))
		var log list
		var failing sync.Map
		r := New("parts", w.configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			_, held := w.configMaps.Cache().Get(key)
			log.addHeld(key, held)
			if _, fail := failing.Load("now"); fail {
				return Result{}, errors.New("no")
			}
			return Result{}, nil
		}, w.ofSecrets)
		w.create(configMap("a"))
		stop := w.run(r)
		synctest.Wait()
		failing.Store("now", true)
		w.delete(configMap("a"))
		<-time.After(time.Minute)
		synctest.Wait()
		calls := sorted(log.take())
		assert.Greater(t, len(calls), 3, "it is tried again")
		assert.Equal(t, "a false", calls[0])
		failing.Delete("now")
		<-time.After(time.Hour)
		synctest.Wait()
		assert.NotEmpty(t, log.take())
		w.create(secret("of-a", "a"))
		synctest.Wait()
		assert.Empty(t, log.take(), "after it succeeded, the key is nobody's, or somebody else's")
		require.NoError(t, stop())
	})
}

func TestCleanupOfAnObjectThatCameBackAndLeftIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scopes := scoped.New(store.ObjectKey[*corev1.ConfigMap])
		w.configMaps = scopes.Informer()
		scope := store.Scope{Namespace: "ns"}
		require.NoError(t, scoped.Add(scopes, scope, w.client.CoreV1().ConfigMaps("ns")))
		var log list
		cleanup := make(chan error)
		r := New("parts", w.configMaps, func(_ context.Context, key store.Key, object *corev1.ConfigMap) (Result, error) {
			log.addHeld(key, object != nil)
			if object == nil {
				return Result{}, <-cleanup
			}
			return Result{}, nil
		}, w.ofSecrets)
		w.create(configMap("a"))
		stop := w.run(r)
		synctest.Wait()
		w.delete(configMap("a"))
		synctest.Wait()
		assert.Equal(t, []string{"a false", "a true"}, sorted(log.take()))

		w.create(configMap("a"))
		synctest.Wait()
		require.NoError(t, scopes.Drop(scope))
		synctest.Wait()
		cleanup <- errors.New("no")
		<-time.After(time.Hour)
		assert.Empty(t, log.take(), "the object exists, and another process is responsible for it")
		require.NoError(t, stop())
	})
}

func (w *world) delete(object metav1.Object) {
	w.t.Helper()
	require.NoError(w.t, w.server.Delete(object))
}
