package reflector

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// configMaps returns the body of a list of n objects.
func configMaps(n int) string {
	var body strings.Builder
	body.WriteString(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[`)
	for i := range n {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"metadata":{"namespace":"default","name":"a%d","uid":"%d","resourceVersion":"%d"},"data":{"key":"%s"}}`, i, i, i+1, strings.Repeat("x", 4000))
	}
	body.WriteString("]}")
	return body.String()
}

// TestItemsThatAreHeldCostNextToNothing counts what is allocated for a list of which
// everything is held.
func TestItemsThatAreHeldCostNextToNothing(t *testing.T) {
	const n = 5000
	r := someResource(t)
	body := configMaps(n)
	read := func() {
		p, err := r.items(wire.NewList(strings.NewReader(body), wire.JSON, 0), wire.JSON, source.Wants[*corev1.ConfigMap]{Holds: func(store.Key, store.Version) bool { return true }})
		require.NoError(t, err)
		assert.Empty(t, p.Items)
		require.Len(t, p.Held, n)
		assert.Equal(t, store.Key{Namespace: "default", Name: "a4999"}, p.Held[n-1])
	}
	read()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	most := 0.1 // it is 0.02
	if raceEnabled {
		most = 0.3 // pools then forget some of what they hold
	}
	assert.Less(t, float64(after.Mallocs-before.Mallocs)/n, most)
}

func TestItemsOfWhichSomeAreHeld(t *testing.T) {
	const n = 100
	r := someResource(t)
	odd := func(key store.Key, version store.Version) bool {
		return strings.HasSuffix(key.Name, "1") && version.UID != "" && version.ResourceVersion != ""
	}
	p, err := r.items(wire.NewList(strings.NewReader(configMaps(n)), wire.JSON, 0), wire.JSON, source.Wants[*corev1.ConfigMap]{Holds: odd})
	require.NoError(t, err)
	assert.Len(t, p.Held, n/10)
	assert.Len(t, p.Items, n-n/10)
	for _, item := range p.Items {
		assert.False(t, strings.HasSuffix(item.Name, "1"), item.Name)
	}
	_, err = r.items(wire.NewList(strings.NewReader(configMaps(n)[:1000]), wire.JSON, 0), wire.JSON, source.Wants[*corev1.ConfigMap]{Holds: odd})
	assert.ErrorIs(t, err, ErrTruncated)
	assert.NotErrorIs(t, err, io.EOF)
}
