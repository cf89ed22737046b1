package feed

import (
	"context"
	"errors"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var podA = podKey("a")

// version returns the pod in the state of a resource version.
func (h *layers) version(version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: version}}
}

// layers are the caches of two selectors, without a server.
type layers struct {
	t           *testing.T
	shown, a, b *store.Cache[*corev1.Pod]
}

func newLayers(t *testing.T) *layers {
	h := &layers{t: t, shown: store.New(store.ObjectKey[*corev1.Pod])}
	m := NewSelected(Target[*corev1.Pod]{Cache: h.shown, Into: h.shown, Report: func(context.Context, error) {}}, nil, nil)
	for name, to := range map[string]**store.Cache[*corev1.Pod]{"a": &h.a, "b": &h.b} {
		part, err := m.part(Place{Selector: name})
		require.NoError(t, err)
		*to = part.(*store.Cache[*corev1.Pod])
	}
	return h
}

// shows checks which state the cache shows; empty for none.
func (h *layers) shows(want string) {
	h.t.Helper()
	got := ""
	if pod, ok := h.shown.Get(podA); ok {
		got = pod.ResourceVersion
	}
	assert.Equal(h.t, want, got)
}

func TestRejectedStateOfASelectorKeepsTheNewerOne(t *testing.T) {
	h := newLayers(t)
	require.NoError(t, h.b.Replace([]*corev1.Pod{h.version("5")}, "5"))
	require.NoError(t, h.a.Replace([]*corev1.Pod{h.version("9")}, "9"))
	batch := h.b.BeginBatch(h.b, false)
	require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Key: podA, Version: store.VersionOf(h.version("9")), Err: errors.New("bad")}))
	require.Error(t, batch.Commit("11"))
	require.NoError(t, h.a.Delete(h.version("10")))
	h.shows("9")
	require.NoError(t, h.b.Update(h.version("12")))
	h.shows("12")
}

func TestRestoredServerEndsTheFloors(t *testing.T) {
	h := newLayers(t)
	require.NoError(t, h.b.Replace(nil, "50"))
	require.NoError(t, h.a.Replace([]*corev1.Pod{h.version("100")}, "100"))
	require.NoError(t, h.a.Delete(h.version("110")))
	require.NoError(t, h.b.Update(h.version("60")))
	h.shows("") // from before the deletion
	require.NoError(t, h.a.Replace(nil, "65"))
	h.shows("60") // the server lost the deletion
}
