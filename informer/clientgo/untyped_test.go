package clientgo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// listWatch is the ListerWatcher of a generated informer of ConfigMaps.
func listWatch(client kubernetes.Interface) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().ConfigMaps("").List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().ConfigMaps("").Watch(ctx, opts)
		},
	}, client)
}

var byNamespace = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}

func TestInformerOfAListerWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"), named("b", "x"))
		s := NewSharedIndexInformer(listWatch(clientset(t, server)), &configMap{}, 2*time.Second, byNamespace)
		var m marking
		require.NoError(t, s.SetTransform(m.transform))
		var d diary
		_, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		require.NoError(t, server.Update(named("a", "y")))
		require.NoError(t, server.Delete(named("b")))
		synctest.Wait()
		assert.Equal(t, []string{"initial a:x!", "initial b:x!", "update a:x!>a:y!", "delete b:x!"}, d.take())
		found, err := s.GetIndexer().ByIndex(cache.NamespaceIndex, "default")
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.IsType(t, &configMap{}, found[0])
		<-time.After(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"resync a:y!"}, d.take())
		assert.Len(t, server.Requests(), 1, "one watch-list")
	})
}

func TestObjectOfAnotherTypeThanTheExampleIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewSharedIndexInformer(listWatch(clientset(t, server)), &corev1.Secret{}, 0, nil)
		run(t, s)
		synctest.Wait()
		assert.True(t, s.HasSynced(), "the list is complete, except for the rejected objects")
		assert.Empty(t, s.GetStore().List())
		errs := reported.take()
		require.NotEmpty(t, errs)
		assert.ErrorContains(t, errs[0], "object is a *v1.ConfigMap, not a *v1.Secret")
	})
}

func TestInformerWithoutAnExampleTakesEveryType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewSharedIndexInformer(listWatch(clientset(t, server)), nil, 0, nil)
		run(t, s)
		synctest.Wait()
		assert.Len(t, s.GetStore().List(), 1)
	})
}

func TestNilListerWatcherIsAnErrorOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		s := NewSharedIndexInformer(nil, &configMap{}, 0, nil)
		s.RunWithContext(t.Context()) // returns
		errs := reported.take()
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], reflector.ErrNoClient)
		assert.False(t, s.HasSynced())
		assert.True(t, s.IsStopped())
	})
}

func TestIndexerWithoutAFunctionPanics(t *testing.T) {
	assert.PanicsWithValue(t, `clientgo: new informer of *v1.ConfigMap: index "none": no index function`, func() {
		NewSharedIndexInformer(&cache.ListWatch{}, &configMap{}, 0, cache.Indexers{"none": nil})
	})
}

func TestDescriptionIsTheNameOfTheInformer(t *testing.T) {
	s := NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &configMap{}, cache.SharedIndexInformerOptions{ObjectDescription: "settings"})
	assert.Equal(t, "informer settings", s.HasSyncedChecker().Name())
}
