package controllerruntime

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func TestPathsOfResources(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	sites := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "sites"}
	for path, want := range map[string]request{
		"/api/v1/pods":                                     {resource: pods},
		"/api/v1/namespaces/a/pods":                        {resource: pods, namespace: "a"},
		"/api/v1/namespaces":                               {resource: corev1.SchemeGroupVersion.WithResource("namespaces")},
		"/apis/example.com/v1/sites":                       {resource: sites},
		"/apis/example.com/v1/namespaces/a/sites":          {resource: sites, namespace: "a"},
		"/a/prefix/api/v1/namespaces/a/pods":               {resource: pods, namespace: "a"},
		"/k8s/clusters/c-1/apis/example.com/v1/sites":      {resource: sites},
		"/apis/example.com/v1/namespaces/namespaces/sites": {resource: sites, namespace: "namespaces"},
	} {
		got, err := parse(path)
		require.NoError(t, err, path)
		assert.Equal(t, want, got, path)
	}
	for _, path := range []string{"", "/", "/pods", "/v1/pods", "/other/v1/pods"} {
		_, err := parse(path)
		assert.ErrorContains(t, err, "want one of a resource", path)
	}
}

func TestListerWatcherWithoutRequests(t *testing.T) {
	_, err := requested(&cache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		return watch.NewFake(), nil
	}})
	assert.ErrorIs(t, err, errNotCaptured)
}
