package shard

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFactsSayWhoHasWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		one, two := w.start("one"), w.start("two")
		pass(time.Second)
		has := func(m *started) map[string]string {
			return maps.Collect(m.Facts())
		}
		first, second := has(one), has(two)
		assert.Equal(t, "Sharing", first["does"])
		assert.Equal(t, "2 of 4 shards", first["has"])
		assert.Len(t, first["shards"], len("0 1"))
		assert.NotEqual(t, first["shards"], second["shards"])
		assert.NotContains(t, first, "held by nobody")
		assert.Regexp(t, `^one\S*: 2; two\S*: 2$`, first["members"])
		require.NoError(t, two.stop())
		pass(time.Second / 2) // not when the lease is renewed: two renewals at one time are no change
		assert.Equal(t, "0 1 2 3", has(one)["shards"])
		require.NoError(t, one.stop())
		assert.Equal(t, map[string]string{"does": "Stopped"}, has(one))
	})
}
