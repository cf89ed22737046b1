package informer

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func TestGone(t *testing.T) {
	server := reflectortest.Start(t)
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there"}}
	require.NoError(t, server.Create(there))
	require.NoError(t, server.Get(there))
	pods := clientOf(t, server).CoreV1().Pods("")
	everything := New(pods)
	selected := New(pods, WithReflector(reflector.WithLabelSelector(labels.SelectorFromSet(labels.Set{"app": "x"}))))
	sharded := New(pods, WithReflector(reflector.WithShard(store.Shards(store.ByUID, 2)[0])))
	elsewhere := New(clientOf(t, server).CoreV1().Pods("other"))
	own := New(pods, WithGet(func(ctx context.Context, key store.Key) (metav1.Object, error) {
		return clientOf(t, server).CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	}))
	for name, tc := range map[string]struct {
		of      *Informer[*corev1.Pod]
		key     string
		deleted []types.UID
		want    bool
	}{
		"without a selector the cache is proof":    {everything, "there", nil, true},
		"selected, and there":                      {selected, "there", nil, false},
		"selected, and not there":                  {selected, "not", nil, true},
		"the deleted object is there":              {selected, "there", []types.UID{there.UID}, false},
		"another object is there":                  {selected, "there", []types.UID{"other"}, true},
		"another object, and the deleted one":      {selected, "there", []types.UID{there.UID, "other"}, true},
		"an unknown object is there":               {selected, "there", []types.UID{""}, false},
		"of another process":                       {sharded, "not", nil, false},
		"a shard's object that is gone":            {sharded, "not", []types.UID{"other"}, true},
		"a shard's object that is there":           {sharded, "there", []types.UID{there.UID}, false},
		"of another namespace":                     {elsewhere, "there", nil, false},
		"there by the function of the program":     {own, "there", nil, false},
		"not there by the function of the program": {own, "not", nil, true},
	} {
		gone, err := tc.of.Gone(t.Context(), store.Key{Namespace: "ns", Name: tc.key}, tc.deleted...)
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, gone, name)
	}
	assert.True(t, everything.Covers(store.Key{Namespace: "ns", Name: "there"}))
	assert.False(t, selected.Covers(store.Key{Namespace: "ns", Name: "there"}))

	nothing := New(pods, WithGet(func(context.Context, store.Key) (metav1.Object, error) { return (*corev1.Pod)(nil), nil }))
	_, err := nothing.Gone(t.Context(), store.Key{Namespace: "ns", Name: "there"})
	assert.ErrorContains(t, err, "return a NotFound error if there is none")
}
