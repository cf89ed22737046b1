package reflector_test

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

func TestGeneratedClientShowsWhatAResourceNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		require.NoError(t, server.Create(paint("b", "red")))
		elsewhere := paint("x", "red")
		elsewhere.Namespace = "elsewhere"
		require.NoError(t, server.Create(elsewhere))
		clientset := kubernetes.NewForConfigOrDie(server.Config())
		resource, err := client.FromTypedClient(clientset.CoreV1().ConfigMaps("default"))
		require.NoError(t, err)
		assert.Empty(t, server.Requests())
		reflects(t, server, resource, func(c *corev1.ConfigMap) string { return c.Data["color"] })
		assert.Len(t, server.Requests(), 2, "one that asks for the resources, and the watch")

		nodes, err := client.FromTypedClient(clientset.CoreV1().Nodes(), client.WithScheme(scheme.Scheme))
		require.NoError(t, err)
		_, err = nodes.List(t.Context(), metav1.ListOptions{})
		assert.NoError(t, err)
		other, err := client.FromTypedClient(clientset.CoreV1().ConfigMaps("default"), client.WithKind(corev1.SchemeGroupVersion.WithKind("Canvas")))
		require.NoError(t, err)
		_, err = other.List(t.Context(), metav1.ListOptions{})
		assert.ErrorIs(t, err, reflector.ErrNotServed)
	})
}

// overriding is a wrapper with a method of its own.
type overriding struct{ typedcorev1.ConfigMapInterface }

func TestClientThatDoesNotShowItsRESTClient(t *testing.T) {
	clientset := fake.NewClientset()
	_, err := client.FromTypedClient(clientset.CoreV1().ConfigMaps("default"))
	assert.ErrorIs(t, err, client.ErrNotGenerated)
	_, err = client.FromTypedClient[*corev1.ConfigMap, *corev1.ConfigMapList](overriding{clientset.CoreV1().ConfigMaps("default")})
	assert.ErrorIs(t, err, client.ErrNotGenerated)
	_, err = client.FromTypedClient[*corev1.ConfigMap, *corev1.ConfigMapList](nil)
	assert.ErrorIs(t, err, client.ErrNotGenerated)
}
