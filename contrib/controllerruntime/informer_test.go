package controllerruntime

import (
	"context"
	"errors"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// TestNewInformerServesACache leaves requests to controller-runtime.
func TestNewInformerServesACache(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{NewInformer: NewInformer})
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods))
	assert.Len(t, pods.Items, 3)
	assert.False(t, informerOf(t, c, &corev1.Pod{}).copies, "decoded by controller-runtime")
}

// plain is a ListerWatcher whose server has no watch-lists.
type plain struct{ *toolscache.ListWatch }

func (plain) IsWatchListSemanticsUnSupported() bool { return true }

// failure runs an informer over a list until its first failure.
func failure(t *testing.T, list runtime.Object, example runtime.Object) error {
	t.Helper()
	lw := plain{&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), nil
		},
	}}
	i := NewInformer(lw, example, 0, nil)
	failures := make(chan error, 1)
	require.NoError(t, i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		select {
		case failures <- err:
		default:
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	return <-failures
}

func TestListerWatchersThatReturnNoList(t *testing.T) {
	for name, list := range map[string]runtime.Object{"nil": nil, "a nil pointer": (*corev1.PodList)(nil)} {
		t.Run(name, func(t *testing.T) {
			err := failure(t, list, &corev1.Pod{})
			assert.ErrorIs(t, err, ErrListerWatcher)
			assert.ErrorAs(t, err, new(*reflector.Error))
		})
	}
	t.Run("an object", func(t *testing.T) {
		assert.ErrorContains(t, failure(t, &corev1.Pod{}, &corev1.Pod{}), "ListerWatcher returned a *v1.Pod")
	})
}

func TestObjectsOfAnotherTypeThanTheExampleAreRejected(t *testing.T) {
	i := NewInformer(&toolscache.ListWatch{}, &corev1.Node{}, 0, nil).(*sharedInformer)
	_, err := i.prepare(&corev1.Pod{})
	wrong, ok := errors.AsType[*TypeError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "ListerWatcher of an informer of *v1.Node returned a *v1.Pod", wrong.Error())
	_, err = i.prepare(&corev1.Node{})
	assert.NoError(t, err)
}

func TestIndexersAreAdded(t *testing.T) {
	i := NewInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	assert.Contains(t, i.GetIndexer().GetIndexers(), toolscache.NamespaceIndex)
	assert.Panics(t, func() { NewInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{"none": nil}) })
}
