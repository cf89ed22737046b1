package eventqueue

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeyTableIsAMapOfKeys(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, hash := range map[string]func(store.Key) uint64{
		"hashes":      hashOf,
		"few hashes":  func(k store.Key) uint64 { return hashOf(k) % 5 },
		"at the end":  func(k store.Key) uint64 { return ^uint64(0) - hashOf(k)%3 },
		"with a wrap": func(k store.Key) uint64 { return hashOf(k)%7 - 3 },
	} {
		var s keyTable[*thing]
		all := map[store.Key]*keyState[*thing]{}
		bound := 300
		for step := range 8_000 {
			if step%1600 == 0 {
				bound = []int{300, 10}[step/1600%2] // grow, and shrink again
			}
			key := store.Key{Namespace: fmt.Sprint(random.IntN(3)), Name: fmt.Sprint(random.IntN(300))}
			k := s.get(key, hash(key))
			require.Same(t, all[key], k)
			switch {
			case k == nil && len(all) < bound:
				all[key] = &keyState[*thing]{key: key, hash: hash(key)}
				s.add(all[key])
			case k != nil && (len(all) > bound || random.IntN(3) == 0):
				s.remove(k)
				delete(all, key)
			}
			require.Equal(t, len(all), s.len)
		}
		found := map[store.Key]*keyState[*thing]{}
		for k := range s.all() {
			found[k.key] = k
		}
		assert.Equal(t, all, found)
	}
}

func TestHashTellsPartsOfKeysApart(t *testing.T) {
	hashes := map[uint64]store.Key{}
	for _, k := range []store.Key{
		{Name: "a"}, {Namespace: "a"}, {Cluster: "a"}, {Namespace: "a", Name: "b"}, {Namespace: "b", Name: "a"},
		{Cluster: "a", Name: "b"}, {Cluster: "b", Name: "a"}, {Cluster: "a", Namespace: "b"}, {Cluster: "b", Namespace: "a"},
	} {
		assert.NotContains(t, hashes, hashOf(k), "%v", k)
		hashes[hashOf(k)] = k
	}
}

func TestKeyTableGivesMemoryBack(t *testing.T) {
	var s keyTable[*thing]
	for i := range 10_000 {
		s.add(&keyState[*thing]{key: key(fmt.Sprint(i)), hash: hashOf(key(fmt.Sprint(i)))})
	}
	shrunk := 0
	for i := range 10_000 {
		before := len(s.slots)
		s.remove(s.get(key(fmt.Sprint(i)), hashOf(key(fmt.Sprint(i)))))
		if len(s.slots) < before {
			shrunk++
		}
	}
	assert.Zero(t, s.len)
	assert.LessOrEqual(t, len(s.slots), fewSlots)
	assert.Positive(t, shrunk)
	assert.Less(t, shrunk, 10, "it costs as much as there are")
}
