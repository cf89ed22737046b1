package scoped

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
)

func TestSelectsWhatAScopeMayHold(t *testing.T) {
	clientset := clientOf(t, reflectortest.Start(t))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	labelled := reflector.WithLabelSelector(labels.Set{"app": "x"}.AsSelector())
	scopes := New(store.ObjectKey[*corev1.ConfigMap])
	assert.False(t, scopes.Informer().Selects(object), "it has no scopes")
	add := func(namespace string, opts ...reflector.Option) {
		require.NoError(t, Add(scopes, store.Scope{Namespace: namespace}, clientset.CoreV1().ConfigMaps(namespace), opts...))
	}
	add("other")
	assert.False(t, scopes.Informer().Selects(object))
	add("ns", labelled)
	assert.False(t, scopes.Informer().Selects(object))
	object.Labels = map[string]string{"app": "x"}
	assert.True(t, scopes.Informer().Selects(object))
}
