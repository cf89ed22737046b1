package informer

import (
	"testing"

	"github.com/kubereflector/kubereflector/internal/feed"
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

func TestSelectsWhatTheCacheMayHold(t *testing.T) {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	labelled := reflector.WithLabelSelector(labels.Set{"app": "x"}.AsSelector())

	assert.True(t, New(clientset.CoreV1().ConfigMaps("")).Selects(object))
	assert.False(t, New(clientset.CoreV1().ConfigMaps(""), WithReflector(labelled)).Selects(object))

	fed := NewFed(nil, store.ObjectKey[*corev1.ConfigMap], func(feed.Target[*corev1.ConfigMap]) feed.Group { return feed.New(nil) })
	assert.True(t, fed.Selects(object), "nobody knows")
}
