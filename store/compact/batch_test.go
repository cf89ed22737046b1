package compact_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// A list is packed as it comes: of the objects themselves there are no more at any time than
// the store keeps decoded.
func TestListIsPackedAsItComes(t *testing.T) {
	for _, limit := range []int{0, 8} {
		s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(limit))
		var asked *corev1.Pod
		byNode, err := store.AddIndex(s.Cache(), "node", compact.By(func(p *corev1.Pod) []string {
			asked = p
			return []string{p.Spec.NodeName}
		}))
		require.NoError(t, err)
		batch, own := decorate.Begin(s, true)
		require.True(t, own)
		var whole []weak.Pointer[corev1.Pod]
		for n := range 100 {
			p := pod(fmt.Sprint(n))
			p.Spec.NodeName = "x"
			require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: p}))
			require.Same(t, p, asked, "it is not decoded for the index")
			whole = append(whole, weak.Make(p))
		}
		asked = nil
		runtime.GC()
		live := 0
		for _, p := range whole {
			if p.Value() != nil {
				live++
			}
		}
		assert.LessOrEqual(t, live, limit)
		require.NoError(t, batch.Commit("200"))
		assert.Nil(t, asked, "nor asked again")
		assert.Equal(t, 100, s.Len())
		n := 0
		for range byNode.Get("x") {
			n++
		}
		assert.Equal(t, 100, n)
	}
}

func TestListDrivesOutNoMoreThanHalfOfWhatWasRead(t *testing.T) {
	const limit = 16
	s := compact.New(store.ObjectKey[*corev1.Pod], compact.WithRecent(limit))
	for n := range limit {
		require.NoError(t, s.Add(pod(fmt.Sprint(n))))
	}
	read := map[store.Key]*corev1.Pod{}
	for key := range s.All() {
		read[key], _ = s.Get(key)
	}
	batch, _ := decorate.Begin(s, true)
	for n := range 100 {
		p := pod(fmt.Sprint(n)) // of which the first are as they were
		require.NoError(t, batch.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: p}))
	}
	require.NoError(t, batch.Commit("200"))
	decoded := 0
	for key, p := range s.All() { // which keeps nothing decoded
		if p == read[key] {
			decoded++
		}
	}
	assert.Equal(t, limit/2, decoded)
}
