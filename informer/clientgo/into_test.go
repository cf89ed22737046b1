package clientgo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// metricsStore is a store like that of kube-state-metrics: its keys are UIDs, and it returns nothing.
type metricsStore struct {
	cache.Store // nil: the other methods are not called

	mu      sync.Mutex
	metrics map[types.UID]string
	failing string // the name of an object that has no metrics
	calls   []string
}

func (s *metricsStore) put(verb string, object any) error {
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	s.calls = append(s.calls, verb+" "+m.GetName())
	if m.GetName() == s.failing {
		return errors.New("no metrics")
	}
	s.metrics[m.GetUID()] = short(object)
	return nil
}

func (s *metricsStore) Add(object any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put("add", object)
}

func (s *metricsStore) Update(object any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put("update", object)
}

func (s *metricsStore) Delete(object any) error {
	m, ok := object.(*configMap)
	if !ok {
		return fmt.Errorf("the object is a %T", object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "delete "+m.Name)
	delete(s.metrics, m.UID)
	return nil
}

// Replace fails half-way, like that of kube-state-metrics.
func (s *metricsStore) Replace(objects []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics = map[types.UID]string{}
	for _, object := range objects {
		if err := s.put("replace", object); err != nil {
			return err
		}
	}
	return nil
}

func (s *metricsStore) Bookmark(string) {}

func (s *metricsStore) read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Values(s.metrics))
}

// take returns the calls since it was last called.
func (s *metricsStore) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *metricsStore) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = ""
}

func newMetricsStore(failing string) *metricsStore {
	return &metricsStore{metrics: map[types.UID]string{}, failing: failing}
}

func TestReflectorFillsAStoreOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"), named("b", "x"), named("c", "x"))
		to := newMetricsStore("c")
		into := IntoStore[*configMap](to)
		var errs []error
		r := reflector.New(configMaps(t, server), into, reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))
		run(t, runsReflector{r})
		synctest.Wait()
		assert.Equal(t, []string{"a:x", "b:x"}, to.read(), "what follows the failed object in the list is there")
		assert.Empty(t, into.ResourceVersion(), "it stays before the rejected object")
		require.NotEmpty(t, errs)
		rejected, ok := errors.AsType[*store.RejectedError](errs[0])
		require.True(t, ok, "%v", errs[0])
		require.Len(t, rejected.Rejections, 1)
		assert.Equal(t, store.Key{Namespace: "default", Name: "c"}, rejected.Rejections[0].Key)

		to.heal()
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a:x", "b:x", "c:x"}, to.read(), "it is fetched again")
		require.NoError(t, server.Update(named("a", "y")))
		require.NoError(t, server.Delete(named("b")))
		synctest.Wait()
		assert.Equal(t, []string{"a:y", "c:x"}, to.read())
		assert.Equal(t, "6", into.ResourceVersion())

		relist(t, server, func() {
			require.NoError(t, server.Delete(named("c")))
			create(t, server, named("c", "again"))
		})
		assert.Equal(t, []string{"a:y", "c:again"}, to.read())
	})
}

func TestStoreOfClientGoWithKeysByUID(t *testing.T) {
	to := newMetricsStore("")
	into := IntoStore[*configMap](to)
	require.NoError(t, into.Replace([]*configMap{stored("a", "u1", "1")}, "3"))
	assert.Equal(t, "3", into.ResourceVersion())

	require.NoError(t, into.Update(stored("a", "u2", "4")), "deleted and created again")
	assert.Equal(t, []types.UID{"u2"}, slices.Collect(maps.Keys(to.metrics)))
	require.NoError(t, into.DeleteKey(store.Key{Namespace: "default", Name: "a"}))
	require.NoError(t, into.DeleteKey(store.Key{Namespace: "default", Name: "unknown"}))
	assert.Empty(t, to.metrics)
	assert.Equal(t, []string{"replace a", "delete a", "add a", "delete a"}, to.calls)

	require.NoError(t, into.Bookmark("9"))
	assert.Equal(t, "9", into.ResourceVersion())
}

func TestStoreOfClientGoThatFails(t *testing.T) {
	to := newMetricsStore("b")
	into := IntoStore[*configMap](to)
	require.NoError(t, into.Replace([]*configMap{stored("a", "u1", "1"), stored("gone", "u0", "1")}, "3"))
	err := into.Add(stored("b", "u2", "4"))
	assert.ErrorAs(t, err, new(*store.RejectedError))
	require.NoError(t, into.Update(stored("a", "u1", "5", "x")))
	assert.Equal(t, "3", into.ResourceVersion(), "it stays before the rejected object")

	err = into.Replace([]*configMap{stored("b", "u2", "4"), stored("a", "u1", "5", "x")}, "6")
	assert.ErrorAs(t, err, new(*store.RejectedError))
	assert.Equal(t, []string{"a:x"}, to.read())
	assert.Contains(t, to.calls, "delete gone", "of a Replace that failed nobody knows what it deleted")

	require.NoError(t, into.Delete(stored("b", "u2", "7")))
	assert.Equal(t, "7", into.ResourceVersion(), "nothing is missing any more")
}

// TestLastKnownStateHasTheTypeOfTheObjects serves stores that convert objects.
func TestLastKnownStateHasTheTypeOfTheObjects(t *testing.T) {
	key := store.Key{Namespace: "default", Name: "a"}
	for name, write := range map[string]func(store.Store[Object]) error{
		"of a list":  func(into store.Store[Object]) error { return into.Replace([]Object{stored("a", "u", "1")}, "3") },
		"of a watch": func(into store.Store[Object]) error { return into.Add(stored("a", "u", "1")) },
	} {
		t.Run(name, func(t *testing.T) {
			to := newMetricsStore("")
			into := IntoStore[Object](to)
			require.NoError(t, write(into))
			require.NoError(t, into.DeleteKey(key))
			assert.Empty(t, to.metrics)
		})
	}
	assert.Equal(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u"}}, lastKnown(reflect.TypeFor[*corev1.ConfigMap](), key, "u"))
	type around struct{ *corev1.ConfigMap }
	type deep struct{ around }
	for _, kind := range []reflect.Type{reflect.TypeFor[*around](), reflect.TypeFor[*deep]()} {
		assert.IsType(t, &metav1.PartialObjectMetadata{}, lastKnown(kind, key, "u"))
	}
}

func TestIntoNoStoreIsAnErrorOfRun(t *testing.T) {
	client := fake.NewClientset().CoreV1().ConfigMaps("")
	for _, to := range []cache.Store{nil, (*metricsStore)(nil)} {
		assert.ErrorIs(t, reflector.New(client, IntoStore[*corev1.ConfigMap](to)).Run(t.Context()), reflector.ErrNoStore)

		reported.take()
		r := NewReflectorWithOptions(&cache.ListWatch{}, nil, to, cache.ReflectorOptions{})
		r.RunWithContext(t.Context())
		errs := reported.take()
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], reflector.ErrNoStore)
		assert.Empty(t, r.LastSyncResourceVersion())
	}
}

// TestReflectorOfAListerWatcherFillsAStoreOfClientGo serves programs that call cache.NewReflectorWithOptions.
func TestReflectorOfAListerWatcherFillsAStoreOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"), named("b", "x"))
		to := newMetricsStore("")
		lw := cache.NewListWatchFromClient(clientset(t, server).CoreV1().RESTClient(), "configmaps", "", fields.Everything())
		r := NewReflectorWithOptions(lw, &corev1.ConfigMap{}, to, cache.ReflectorOptions{Name: "metrics"})
		assert.False(t, r.HasSynced())
		stop := run(t, r)
		synctest.Wait()
		assert.True(t, r.HasSynced())
		assert.Equal(t, "3", r.LastSyncResourceVersion())
		assert.Equal(t, []string{"a:x", "b:x"}, to.read())
		require.NoError(t, server.Delete(named("b")))
		synctest.Wait()
		assert.Equal(t, []string{"a:x"}, to.read())

		stop()
		require.NoError(t, server.Update(named("a", "y")))
		to.take()
		stopped := make(chan struct{})
		go r.Run(stopped)
		synctest.Wait()
		assert.Equal(t, []string{"replace a"}, to.take(), "some stores wait for a Replace after each start")
		close(stopped)
		synctest.Wait()
		assert.Empty(t, reported.take())
	})
}

func TestFailuresOfAReflectorThatFillsAStoreOfClientGoAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		to := newMetricsStore("")
		lw := cache.NewListWatchFromClient(clientset(t, server).CoreV1().RESTClient(), "configmaps", "", fields.Everything())
		run(t, NewReflectorWithOptions(lw, &corev1.Secret{}, to, cache.ReflectorOptions{}))
		synctest.Wait()
		assert.Empty(t, to.read())
		errs := reported.take()
		require.NotEmpty(t, errs)
		assert.ErrorContains(t, errs[0], "object is a *v1.ConfigMap, not a *v1.Secret")

		NewReflectorWithOptions(nil, &corev1.Secret{}, to, cache.ReflectorOptions{}).Run(nil)
		errs = reported.take()
		require.NotEmpty(t, errs)
		assert.ErrorIs(t, errs[len(errs)-1], reflector.ErrNoClient)
	})
}

// runsReflector is a reflector for run.
type runsReflector struct {
	*reflector.KubernetesResourceReflector[*configMap]
}

func (r runsReflector) RunWithContext(ctx context.Context) { _ = r.Run(ctx) }
