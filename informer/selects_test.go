package informer

import (
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

func TestSelectsWhatAScopeMayHold(t *testing.T) {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	labelled := reflector.WithLabelSelector(labels.Set{"app": "x"}.AsSelector())

	assert.True(t, New(clientset.CoreV1().ConfigMaps("")).Selects(object))
	assert.False(t, New(clientset.CoreV1().ConfigMaps(""), WithReflector(labelled)).Selects(object))

	scoped := NewScoped(store.ObjectKey[*corev1.ConfigMap])
	assert.False(t, scoped.Selects(object), "it has no scopes")
	add := func(namespace string, opts ...reflector.Option) {
		require.NoError(t, AddScope(scoped, store.Scope{Namespace: namespace}, clientset.CoreV1().ConfigMaps(namespace), opts...))
	}
	add("other")
	assert.False(t, scoped.Selects(object))
	add("ns", labelled)
	assert.False(t, scoped.Selects(object))
	object.Labels = map[string]string{"app": "x"}
	assert.True(t, scoped.Selects(object))

	fed := NewFed(store.ObjectKey[*corev1.ConfigMap], func(store.Store[*corev1.ConfigMap], Report) Feed { return nil })
	assert.True(t, fed.Selects(object), "nobody knows")
}
