package eventqueue

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLinesAreAMapOfKeys(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s lines[*thing]
	all := map[store.Key]*line[*thing]{}
	bound := 4000
	for step := range 40_000 {
		if step%8000 == 0 {
			bound = []int{4000, 10}[step/8000%2] // grow, and shrink again
		}
		k := store.Key{Namespace: fmt.Sprint(random.IntN(3)), Name: fmt.Sprint(random.IntN(4000))}
		l, h := s.get(k)
		require.Same(t, all[k], l)
		switch {
		case l == nil && len(all) < bound:
			all[k] = &line[*thing]{key: k, hash: h}
			s.add(all[k])
		case l != nil && (len(all) > bound || random.IntN(3) == 0):
			s.remove(l)
			delete(all, k)
		}
		require.Equal(t, len(all), s.len)
	}
	found := map[store.Key]*line[*thing]{}
	for l := range s.all() {
		found[l.key] = l
	}
	assert.Equal(t, all, found)
}

func TestLinesOfKeysThatLookAlike(t *testing.T) {
	var s lines[*thing]
	a, h := store.Key{Name: "a"}, hashOf(store.Key{Name: "a"})
	first := &line[*thing]{key: store.Key{Name: "other"}, hash: h}
	second := &line[*thing]{key: a, hash: h}
	s.add(first)
	l, _ := s.get(a)
	assert.Nil(t, l, "a hash is not a key")
	s.add(second)
	l, _ = s.get(a)
	assert.Same(t, second, l)
	s.remove(first)
	l, _ = s.get(a)
	assert.Same(t, second, l)
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

func TestLinesGiveMemoryBack(t *testing.T) {
	var s lines[*thing]
	for i := range 10_000 {
		k := key(fmt.Sprint(i))
		s.add(&line[*thing]{key: k, hash: hashOf(k)})
	}
	shrunk := 0
	for i := range 10_000 {
		l, _ := s.get(key(fmt.Sprint(i)))
		if s.remove(l) {
			shrunk++
		}
	}
	assert.Zero(t, s.len)
	assert.LessOrEqual(t, len(s.chains), fewChains)
	assert.Positive(t, shrunk)
	assert.Less(t, shrunk, 10, "it costs as much as there are")
}
