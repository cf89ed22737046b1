package client_test

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Protobuf carries managed fields as bytes, and nothing requires them to be JSON.
func TestObjectWithInvalidManagedFieldsIsUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		maps, err := client.FromTypedClient(clientset.CoreV1().ConfigMaps("ns"))
		require.NoError(t, err)
		held, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		invalid := []metav1.ManagedFieldsEntry{{Manager: "x", FieldsV1: metav1.NewFieldsV1("{")}}
		held.ManagedFields = invalid
		held.Data = map[string]string{"a": "b"}
		now, err := maps.Update(t.Context(), held, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, held.Data, now.Data)
		assert.Equal(t, invalid, held.ManagedFields, "the object of the caller stays as it is")
	})
}
