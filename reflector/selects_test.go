package reflector

import (
	"testing"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

func TestSelectsWhatMayBeHeld(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"app": "x"}}}
	is, isNot := fields.OneTermEqualSelector, fields.OneTermNotEqualSelector
	for name, tc := range map[string]struct {
		opts []Option
		want bool
	}{
		"everything":             {nil, true},
		"labels":                 {[]Option{WithLabelSelector(labels.Set{"app": "x"}.AsSelector())}, true},
		"other labels":           {[]Option{WithLabelSelector(labels.Set{"app": "y"}.AsSelector())}, false},
		"labels withdrawn":       {[]Option{WithLabelSelector(labels.Set{"app": "y"}.AsSelector()), WithLabelSelector(nil)}, true},
		"name":                   {[]Option{WithFieldSelector(is("metadata.name", "a"))}, true},
		"other name":             {[]Option{WithFieldSelector(is("metadata.name", "b"))}, false},
		"any other namespace":    {[]Option{WithFieldSelector(isNot("metadata.namespace", "ns"))}, false},
		"any but another":        {[]Option{WithFieldSelector(isNot("metadata.namespace", "other"))}, true},
		"unknown field":          {[]Option{WithFieldSelector(is("status.phase", "Running"))}, true},
		"unknown, and the name":  {[]Option{WithFieldSelector(fields.AndSelectors(is("status.phase", "Running"), is("metadata.name", "b")))}, false},
		"fields withdrawn":       {[]Option{WithFieldSelector(is("metadata.name", "b")), WithFieldSelector(nil)}, true},
		"fields, but not labels": {[]Option{WithFieldSelector(is("metadata.name", "a")), WithLabelSelector(labels.Set{"app": "y"}.AsSelector())}, false},
	} {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		assert.Equal(t, tc.want, New(clientset.CoreV1().ConfigMaps("other"), s, tc.opts...).Selects(object), name)
		for namespace, there := range map[string]bool{"": true, "ns": true, "other": false} {
			resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, namespace)
			require.NoError(t, err)
			assert.Equal(t, tc.want && there, New(resource, s, tc.opts...).Selects(object), "%s in %q", name, namespace)
		}
	}
	var none *client.Resource[*corev1.ConfigMap]
	assert.True(t, New(none, store.New(store.ObjectKey[*corev1.ConfigMap])).Selects(object))
}
