package stream

import (
	"io"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configMaps returns the body of a list of n objects.
func configMaps(n int) string {
	var body strings.Builder
	body.WriteString(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[`)
	for i := range n {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(configMap(i, 4000))
	}
	body.WriteString("]}")
	return body.String()
}

// TestItemsThatAreHeldCostNextToNothing counts what is allocated for a list of which
// everything is held.
func TestItemsThatAreHeldCostNextToNothing(t *testing.T) {
	const n = 5000
	r := configMapReader(t)
	body := configMaps(n)
	assertAllocations(t, n, mostAllocations(), func() {
		p, err := r.items(wire.NewList(strings.NewReader(body), wire.JSON, 0), wire.JSON, Skip{Holds: func(store.Key, store.Version) bool { return true }}, nil)
		require.NoError(t, err)
		assert.Empty(t, p.Items)
		require.Len(t, p.Held, n)
		assert.Equal(t, store.Key{Namespace: "default", Name: "a4999"}, p.Held[n-1])
	})
}

func TestItemsOfWhichSomeAreHeld(t *testing.T) {
	const n = 100
	odd := func(key store.Key, version store.Version) bool {
		return strings.HasSuffix(key.Name, "1") && version.UID != "" && version.ResourceVersion != ""
	}
	p, err := readItems(t, configMaps(n), Skip{Holds: odd}, nil)
	require.NoError(t, err)
	assert.Len(t, p.Held, n/10)
	assert.Len(t, p.Items, n-n/10)
	for _, item := range p.Items {
		assert.False(t, strings.HasSuffix(item.Name, "1"), item.Name)
	}
	_, err = readItems(t, configMaps(n)[:1000], Skip{Holds: odd}, nil)
	assert.ErrorIs(t, err, wire.ErrTruncated)
	assert.NotErrorIs(t, err, io.EOF)
}

func TestItemsArePassedOnWhileTheListComes(t *testing.T) {
	const n = 3000
	for _, decoders := range []int{1, 2} {
		r := configMapReader(t)
		r.Decoders = decoders
		var taken []string
		body := strings.NewReader(configMaps(n))
		early := false
		p, err := r.items(wire.NewList(body, wire.JSON, 0), wire.JSON, Skip{}, func(object *corev1.ConfigMap) {
			early = early || body.Len() > 0
			assert.Equal(t, "ConfigMap", object.Kind)
			taken = append(taken, object.Name)
		})
		require.NoError(t, err)
		assert.True(t, early, "the rest has not come yet")
		assert.Empty(t, p.Items)
		assert.Equal(t, n, p.Taken)
		whole, err := r.items(wire.NewList(strings.NewReader(configMaps(n)), wire.JSON, 0), wire.JSON, Skip{}, nil)
		require.NoError(t, err)
		var want []string
		for _, item := range whole.Items {
			want = append(want, item.Name)
		}
		assert.Equal(t, want, taken)
	}
}

func TestItemsWithoutAKindAreNotPassedOn(t *testing.T) {
	p, err := configMapReader(t).items(wire.NewList(strings.NewReader(`{"items":[{"metadata":{"name":"a"}}],"metadata":{}}`), wire.JSON, 0), wire.JSON,
		Skip{}, func(*corev1.ConfigMap) { t.Error("passed on") })
	require.NoError(t, err)
	assert.Len(t, p.Items, 1)
}

func TestItemsAreNotPassedOnBeforeTheirKindIsKnownInFull(t *testing.T) {
	body := strings.Replace(configMaps(3000), `"apiVersion":"v1",`, "", 1)
	require.Less(t, len(body), len(configMaps(3000)))
	body = strings.TrimSuffix(strings.TrimSpace(body), "}") + `,"apiVersion":"v1"}`
	n := 0
	_, err := configMapReader(t).items(wire.NewList(strings.NewReader(body), wire.JSON, 0), wire.JSON, Skip{}, func(object *corev1.ConfigMap) {
		n++
		require.Equal(t, metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, object.TypeMeta)
	})
	require.NoError(t, err)
	assert.Equal(t, 3000, n)
}
