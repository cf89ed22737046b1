package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShardsAreSharedEvenlyAndMoveNoMoreThanNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16)
		one := w.start("one")
		pass(time.Second)
		assert.Equal(t, map[string]int{"one": 16}, w.load())
		assert.NoError(t, one.Ready())

		two := w.start("two")
		pass(time.Second)
		assert.Equal(t, map[string]int{"one": 8, "two": 8}, w.load())
		assert.Equal(t, 16+8, w.taken())

		three := w.start("three")
		pass(time.Second)
		assert.Equal(t, 16, w.load()["one"]+w.load()["two"]+w.load()["three"])
		assert.Equal(t, 5, w.load()["three"])
		assert.Equal(t, 16+8+5, w.taken())

		require.NoError(t, two.stop())
		pass(time.Second)
		assert.Equal(t, map[string]int{"one": 8, "three": 8}, w.load())
		assert.Equal(t, 16+8+5+5, w.taken()+w.load()["two"])

		assert.Len(t, one.Owned(), 8)
		require.NoError(t, one.stop())
		require.NoError(t, three.stop())
		assert.Empty(t, w.load())
		assert.Empty(t, w.clash())
	})
}
