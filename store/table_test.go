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
		assert.Nil(t, table.get(key))
		assert.Nil(t, table.remove(key))
		assert.Nil(t, table.put(key, &entry[int]{name: key.Name, object: i}))
	}
	assert.Equal(t, len(keys), table.len)
	for i, key := range keys {
		e := table.get(key)
		require.NotNil(t, e)
		assert.Equal(t, i, e.object)
		assert.Equal(t, key, e.key())
	}
	assert.Same(t, table.get(keys[1]).space, table.get(keys[2]).space, "entries of a namespace share it")

	old := table.get(keys[1])
	assert.Same(t, old, table.put(keys[1], &entry[int]{name: "a", object: 9}))
	assert.Equal(t, len(keys), table.len)
	assert.Equal(t, 9, table.get(keys[1]).object)
	for _, key := range keys {
		assert.NotNil(t, table.remove(key))
		assert.Nil(t, table.get(key))
	}
	assert.Zero(t, table.len)
	assert.Empty(t, table.home)
	assert.Empty(t, table.clusters)
}

func TestEntriesOfOldSpacesAreInOrderWithNewOnes(t *testing.T) {
	// A namespace that comes back has another space than entries from before,
	// which snapshots still hold.
	a := &entry[int]{space: &space{"", "n"}, name: "a"}
	b := &entry[int]{space: &space{"", "n"}, name: "b"}
	other := &entry[int]{space: &space{"c", ""}, name: "a"}
	assert.True(t, lessEntry(a, b))
	assert.False(t, lessEntry(b, a))
	assert.True(t, lessEntry(b, other))
	assert.False(t, lessEntry(other, b))
}
