package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// protobufAgreesWithJSON asks for the same in both encodings.
func protobufAgreesWithJSON(t *testing.T, config *rest.Config) {
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	ctx, ns := t.Context(), "conformance-"+utilrand.String(8)
	clients := map[string]*kubernetes.Clientset{}
	for name, c := range map[string]*rest.Config{"json": config, "protobuf": binary} {
		client, err := kubernetes.NewForConfig(c)
		require.NoError(t, err)
		clients[name] = client
	}
	_, err := clients["protobuf"].CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	require.NoError(t, err)
	before, err := clients["json"].CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"l": "v"}}, Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0, 255}}}
	_, err = clients["protobuf"].CoreV1().ConfigMaps(ns).Create(ctx, cm, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, clients["protobuf"].CoreV1().ConfigMaps(ns).Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}))
	_, err = clients["json"].CoreV1().ConfigMaps(ns).Create(ctx, cm, metav1.CreateOptions{})
	require.NoError(t, err)

	lists, events := map[string]*corev1.ConfigMapList{}, map[string][]watch.Event{}
	for name, client := range clients {
		cms := client.CoreV1().ConfigMaps(ns)
		lists[name], err = cms.List(ctx, metav1.ListOptions{Limit: 10})
		require.NoError(t, err)
		w, err := cms.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
		require.NoError(t, err)
		for range 3 {
			events[name] = append(events[name], <-w.ResultChan())
		}
		w.Stop()
		_, err = cms.Get(ctx, "absent", metav1.GetOptions{})
		require.EqualError(t, err, `configmaps "absent" not found`, name)
	}
	require.Len(t, lists["json"].Items, 1)
	// Not the versions of the lists: others write meanwhile.
	require.Equal(t, lists["json"].Items, lists["protobuf"].Items)
	require.Equal(t, []watch.EventType{watch.Added, watch.Deleted, watch.Added}, []watch.EventType{events["json"][0].Type, events["json"][1].Type, events["json"][2].Type})
	require.Equal(t, events["json"], events["protobuf"])
}
