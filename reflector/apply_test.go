package reflector

import (
	"testing"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestEventsThatCameTogetherAreOneCommit(t *testing.T) {
	change := func(kind watch.EventType, name, version string) source.Event[*corev1.ConfigMap] {
		return source.Event[*corev1.ConfigMap]{Type: kind, Object: configMap(name, "u "+name, version), ResourceVersion: version}
	}
	left := source.Event[*corev1.ConfigMap]{Type: watch.Modified, OutOfShard: 1, ResourceVersion: "13", Left: &source.Departure{
		Key: store.Key{Namespace: "ns", Name: "a"}, Version: store.Version{ResourceVersion: "13"},
	}}
	other := source.Event[*corev1.ConfigMap]{Type: watch.Added, OutOfShard: 1, ResourceVersion: "20"}
	marked := source.Event[*corev1.ConfigMap]{Type: watch.Bookmark, ResourceVersion: "21"}
	for name, tc := range map[string]struct {
		events        []source.Event[*corev1.ConfigMap]
		want, version string
		commits       int
		rejects       bool
	}{
		"changes":                    {[]source.Event[*corev1.ConfigMap]{change(watch.Modified, "a", "11"), change(watch.Added, "b", "12")}, "a@11 b@12", "12", 1, false},
		"a deletion":                 {[]source.Event[*corev1.ConfigMap]{change(watch.Deleted, "a", "11")}, "", "11", 1, false},
		"one that left":              {[]source.Event[*corev1.ConfigMap]{change(watch.Added, "b", "12"), left}, "b@12", "13", 1, false},
		"one of another shard last":  {[]source.Event[*corev1.ConfigMap]{change(watch.Added, "b", "12"), other}, "a@1 b@12", "20", 1, false},
		"one of another shard first": {[]source.Event[*corev1.ConfigMap]{other, change(watch.Added, "b", "22")}, "a@1 b@22", "22", 1, false},
		"of other shards":            {[]source.Event[*corev1.ConfigMap]{{Type: watch.Added, OutOfShard: 1, ResourceVersion: "14"}, other}, "a@1", "20", 1, false},
		"a bookmark":                 {[]source.Event[*corev1.ConfigMap]{marked}, "a@1", "21", 1, false},
		"without a version":          {[]source.Event[*corev1.ConfigMap]{{Type: watch.Bookmark}}, "a@1", "10", 0, false},
		"undecodable":                {[]source.Event[*corev1.ConfigMap]{change(watch.Added, "b", "12"), undecodable(watch.Modified, "a", "u a", "13"), other}, "a@1 b@12", "12", 1, true},
		"undecodable, alone":         {[]source.Event[*corev1.ConfigMap]{undecodable(watch.Modified, "a", "u a", "13")}, "a@1", "10", 0, true},
		"an undecodable deletion":    {[]source.Event[*corev1.ConfigMap]{undecodable(watch.Deleted, "a", "u a", "11")}, "", "11", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			require.NoError(t, s.Replace([]*corev1.ConfigMap{configMap("a", "u a", "1")}, "10"))
			c := &commits{}
			defer s.Follow(c)()
			r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, s), events: tc.events}
			r.batch, r.batching = decorate.Begin(r.store, false)
			require.True(t, r.batching)
			err := r.apply().Err
			assert.Equal(t, tc.rejects, err != nil, "%v", err)
			assert.NoError(t, r.batch.Commit(""), "the batch is empty again")
			assert.Equal(t, tc.want, contents(s))
			assert.Equal(t, tc.version, s.ResourceVersion())
			assert.Equal(t, tc.commits, c.count)
		})
	}
}

// written notes which methods of a plain store are called.
type written struct {
	plain
	words []string
}

func (w *written) Add(object *corev1.ConfigMap) error {
	w.words = append(w.words, "add "+object.Name)
	return w.plain.Add(object)
}

func (w *written) Update(object *corev1.ConfigMap) error {
	w.words = append(w.words, "update "+object.Name)
	return w.plain.Update(object)
}

func (w *written) Delete(object *corev1.ConfigMap) error {
	w.words = append(w.words, "delete "+object.Name)
	return w.plain.Delete(object)
}

func (w *written) DeleteKey(key store.Key) error {
	w.words = append(w.words, "delete key "+key.Name)
	return w.plain.DeleteKey(key)
}

func (w *written) Bookmark(version string) error {
	w.words = append(w.words, "bookmark "+version)
	return w.plain.Bookmark(version)
}

func TestPlainStoreGetsEventsOneByOne(t *testing.T) {
	s := &written{plain: plain{newStore()}}
	require.NoError(t, s.Replace(nil, "10"))
	r := &run[*corev1.ConfigMap]{KubernetesResourceReflector: New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, s)}
	r.batch, r.batching = decorate.Begin(r.store, false)
	require.False(t, r.batching)
	r.pending = []source.Event[*corev1.ConfigMap]{
		{Type: watch.Added, Object: configMap("a", "u", "11"), ResourceVersion: "11"},
		{Type: watch.Modified, Object: configMap("a", "u", "12"), ResourceVersion: "12"},
		{Type: watch.Deleted, Object: configMap("a", "u", "13"), ResourceVersion: "13"},
		{Type: watch.Modified, OutOfShard: 1, ResourceVersion: "14", Left: &source.Departure{Key: store.Key{Namespace: "ns", Name: "b"}, Version: store.Version{ResourceVersion: "14"}}},
		{Type: watch.Modified, OutOfShard: 1, ResourceVersion: "15"},
		undecodable(watch.Deleted, "c", "v", "16"),
		{Type: watch.Bookmark, ResourceVersion: "17"},
	}
	for len(r.pending) > 0 {
		r.takePending()
		require.Len(t, r.events, 1)
		require.NoError(t, r.apply().Err)
	}
	assert.Equal(t, []string{
		"add a", "update a", "delete a", "delete key b", "bookmark 14", "bookmark 15", "delete key c", "bookmark 16", "bookmark 17",
	}, s.words)
}
