package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestReconcilerWaitsForAKindThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		is   func(error) bool
	}{
		"forbidden":     {403, apierrors.IsForbidden},
		"not installed": {404, func(err error) bool { return errors.Is(err, reflector.ErrNotServed) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t)
				h.create(configMap("a"), secret("s", "a"))
				fault := h.server.Inject(reflectortest.Answer(tc.code).On("", "secrets"))
				var calls list
				other := New("other", h.configMaps, calls.noting())
				stopOther := runMember(t, other)
				stop := h.start()
				<-time.After(time.Minute)
				err := h.reconciler.Ready()
				assert.ErrorContains(t, err, "reconciler test: informer secrets is not synced; reflector is BackingOff after attempt ")
				assert.True(t, tc.is(err), "%v", err)
				assert.Empty(t, h.calls.take())
				assert.Equal(t, []string{"a"}, calls.take(), "a reconciler of other kinds works")
				assert.NoError(t, other.Ready())
				for _, line := range h.lines.TakeAll() {
					assert.Equal(t, "secrets", line.ContextMap()["informer"])
				}

				fault.Remove()
				<-time.After(time.Minute)
				assert.Equal(t, []string{"a"}, slices.Compact(h.calls.take()))
				assert.NoError(t, h.reconciler.Ready())
				require.NoError(t, stopOther())
				require.NoError(t, stop())
			})
		})
	}
}

func TestNamespaceThatEndsIsNamedAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, server := newWorld(t), reflectortest.Start(t) // server has the namespace that ends
		client, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		scopes, ending := scoped.New(store.ObjectKey[*corev1.ConfigMap]), store.Scope{Namespace: "ending"}
		require.NoError(t, scoped.Add(scopes, store.Scope{Namespace: "ns"}, w.client.CoreV1().ConfigMaps("ns")))
		require.NoError(t, scoped.Add(scopes, ending, client.CoreV1().ConfigMaps("ending")))
		w.configMaps = scopes.Informer()
		w.create(configMap("a"))
		last := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ending", Name: "b"}}
		require.NoError(t, server.Create(last))
		var calls list
		r := New("test", w.configMaps, func(_ context.Context, key store.Key, object *corev1.ConfigMap) (Result, error) {
			if object == nil {
				calls.add(key.Name + " is gone")
			} else {
				calls.add(key.Name)
			}
			return Result{}, nil
		})
		stop := w.run(r)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, sorted(calls.take()))

		// The objects of a namespace end first, then the role bindings that allow to watch it.
		require.NoError(t, server.Delete(last))
		synctest.Wait()
		assert.Equal(t, []string{"b is gone"}, calls.take())
		server.Inject(reflectortest.Answer(403).On("", "configmaps"))
		<-time.After(time.Hour) // the watch ended by itself
		err = r.Ready()
		var stale *informer.StaleError
		require.ErrorAs(t, err, &stale)
		assert.Equal(t, ending, stale.Scope.Scope)
		assert.True(t, apierrors.IsForbidden(err), "%v", err)
		w.touch("a", "x")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, calls.take())
		require.NoError(t, scopes.Drop(ending))
		assert.NoError(t, r.Ready())
		require.NoError(t, stop())
	})
}

func TestPanickingPredicateIsReportedWithTheKeyOfTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("bad"), configMap("good"))
		var calls list
		var failures errorList
		r := New("test", w.configMaps, calls.noting(), WithErrorHandler(failures.note),
			Where(func(event eventqueue.Event[*corev1.ConfigMap]) bool {
				if event.Key.Name == "bad" {
					panic("ouch")
				}
				return true
			}))
		stop := w.run(r)
		synctest.Wait()
		assert.Equal(t, []string{"good"}, calls.take())
		all := failures.take()
		require.Len(t, all, 1)
		assert.EqualError(t, all[0], `handling "ns/bad" failed for good (attempt 1): handler panicked on "ns/bad": ouch`)
		assert.NoError(t, r.Ready())
		require.NoError(t, stop())
	})
}
