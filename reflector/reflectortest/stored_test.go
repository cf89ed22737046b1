package reflectortest_test

import (
	"encoding/json"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestATestSeesEveryVersionOfEveryObject(t *testing.T) {
	s := reflectortest.Start(t)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: map[string]string{"k": "1"}}
	require.NoError(t, s.Create(config))
	created := s.ResourceVersion()
	require.NoError(t, s.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	config.Data["k"] = "2"
	require.NoError(t, s.Update(config))
	updated := s.ResourceVersion()

	all := s.Objects()
	require.Len(t, all, 2)
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	kinds := map[string]string{}
	for _, o := range all {
		kinds[o.GVK.Kind] = o.Namespace + "/" + o.Name
	}
	assert.Equal(t, map[string]string{"ConfigMap": "default/a", "Node": "/n"}, kinds)

	data := func(o *reflectortest.StoredObject) string {
		t.Helper()
		require.NotNil(t, o)
		var got corev1.ConfigMap
		require.NoError(t, json.Unmarshal(o.JSON(), &got))
		assert.Equal(t, "ConfigMap", got.Kind)
		assert.Equal(t, string(got.UID), o.UID)
		return got.Data["k"]
	}
	before, after := s.Change(resource, created)
	assert.Nil(t, before)
	assert.Equal(t, "1", data(after))
	before, after = s.Change(resource, updated)
	assert.Equal(t, "1", data(before))
	assert.Equal(t, "2", data(after))
	before, after = s.Change(resource, created+1)
	assert.Nil(t, before, "that version is the node's")
	assert.Nil(t, after)
	assert.Equal(t, "1", data(s.At(resource, "default", "a", updated-1)))
	assert.Nil(t, s.At(resource, "default", "a", created-1))

	require.NoError(t, s.Delete(config))
	before, after = s.Change(resource, s.ResourceVersion())
	assert.Equal(t, "2", data(before))
	assert.Nil(t, after)
	assert.Nil(t, s.At(resource, "default", "a", s.ResourceVersion()))
	assert.Equal(t, "2", data(s.At(resource, "default", "a", updated)))

	require.NoError(t, s.Compact(s.ResourceVersion()))
	assert.Nil(t, s.At(resource, "default", "a", updated), "compacted")
}
