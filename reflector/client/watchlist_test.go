package client_test

import (
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
)

func TestDoublesThatCannotStreamAreRecognised(t *testing.T) {
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	assert.False(t, stream.CanStream(fake.NewClientset().CoreV1().ConfigMaps("default")))
	assert.False(t, stream.CanStream(client.Dynamic(dynamicfake.NewSimpleDynamicClient(scheme.Scheme).Resource(gvr))))
	assert.False(t, stream.CanStream(client.Metadata(metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()).Resource(gvr))))
	assert.False(t, stream.CanStream(nil))
	real := kubernetes.NewForConfigOrDie(&rest.Config{}).CoreV1().ConfigMaps("default")
	assert.True(t, stream.CanStream(real))
	assert.True(t, stream.CanStream(client.ListWatch[*corev1.ConfigMap](real)))
}
