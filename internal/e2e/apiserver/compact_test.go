package apiserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestWhatIsForgottenIsExpired(t *testing.T) {
	server := Start(t, Options{})
	configMaps := connect(t, server).CoreV1().ConfigMaps(server.Namespace(t))
	old, err := configMaps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = configMaps.Create(t.Context(), configMap("b"), metav1.CreateOptions{})
	require.NoError(t, err)
	atOld := metav1.ListOptions{ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	watchFrom := func(resourceVersion string) watch.Event {
		t.Helper()
		w, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: resourceVersion})
		require.NoError(t, err)
		defer w.Stop()
		return <-w.ResultChan()
	}

	list, err := configMaps.List(t.Context(), atOld)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	require.NoError(t, server.CompactEtcd(t.Context(), ""))
	require.Equal(t, watch.Added, watchFrom(old.ResourceVersion).Type, "kube-apiserver remembers what etcd does not")
	require.ErrorContains(t, server.CompactEtcd(t.Context(), old.ResourceVersion), "compacted", "there is nothing to forget")

	newest, err := configMaps.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, server.Forget(t.Context()))
	_, err = configMaps.List(t.Context(), atOld)
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
	for _, each := range []string{old.ResourceVersion, newest.ResourceVersion} {
		event := watchFrom(each)
		require.Equal(t, watch.Error, event.Type)
		require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%v", event.Object)
	}
	kept, err := configMaps.Get(t.Context(), "b", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "b", kept.Name)
}
