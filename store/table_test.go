package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTableFindsWhatWasPutAndForgetsEmptyNamespaces(t *testing.T) {
	table := newTable[int]()
	keys := []Key{{"", "", "a"}, {"", "n", "a"}, {"", "n", "b"}, {"c", "n", "a"}, {"c", "", "a"}}
	for i, key := range keys {
		_, held := table.get(key)
		assert.False(t, held)
		table.remove(key)
		e := &entry[int]{header: *pivot(key), object: i}
		s := table.nsMap(key)
		if s == nil {
			s = table.add(e.space, make(map[string]slot[int]))
		}
		table.put(s, key, e)
		if i != 2 {
			assert.Same(t, e.space, table.nsMap(key).space)
		}
	}
	assert.Equal(t, len(keys), table.len)
	for i, key := range keys {
		object, held := table.get(key)
		require.True(t, held)
		assert.Equal(t, i, object)
	}
	assert.Same(t, table.nsMap(keys[1]), table.nsMap(keys[2]), "a namespace has one nsMap")

	table.put(table.nsMap(keys[1]), keys[1], &entry[int]{object: 9})
	assert.Equal(t, len(keys), table.len)
	object, _ := table.get(keys[1])
	assert.Equal(t, 9, object)
	for _, key := range keys {
		table.remove(key)
		_, held := table.get(key)
		assert.False(t, held)
	}
	assert.Zero(t, table.len)
	assert.Empty(t, table.home)
	assert.Empty(t, table.clusters)
}

func TestEntriesOfOldSpacesAreInOrderWithNewOnes(t *testing.T) {
	// A namespace that comes back has another space than entries from before,
	// which snapshots still hold.
	a := &header{space: &space{"", "n"}, name: "a"}
	b := &header{space: &space{"", "n"}, name: "b"}
	other := &header{space: &space{"c", ""}, name: "a"}
	assert.True(t, lessEntry(a, b))
	assert.False(t, lessEntry(b, a))
	assert.True(t, lessEntry(b, other))
	assert.False(t, lessEntry(other, b))
}
