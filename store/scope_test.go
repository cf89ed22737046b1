package store

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/util/uuid"
)

func TestShardsHashAsAPIServersDo(t *testing.T) {
	for _, value := range []string{"", "a", "default", string(uuid.NewUUID()), "ü\x00\xff"} {
		want, err := strconv.ParseUint(sharding.HashField(value), 16, 64)
		require.NoError(t, err)
		assert.Equal(t, want, ShardHash(value), "%q", value)
	}
}

func TestShardsHaveEverythingBetweenThemOnce(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 2, 3, 7, 16, 1000} {
		shards := Shards(ByUID, n)
		require.Len(t, shards, max(n, 1))
		assert.Zero(t, shards[0].From)
		assert.Zero(t, shards[len(shards)-1].To)
		for i, shard := range shards {
			if i > 0 {
				assert.Equal(t, shards[i-1].To, shard.From)
			}
			assert.InDelta(t, 1/float64(len(shards)), (float64(shard.last())-float64(shard.From))/(1<<64), 1e-9)
		}
		for range 100 {
			uid, in := string(uuid.NewUUID()), 0
			for _, shard := range shards {
				if shard.Contains(ShardHash(uid)) {
					in++
				}
			}
			require.Equal(t, 1, in, uid)
		}
	}
	assert.True(t, Shards(ByNamespace, 1)[0].IsEverything())
}

func TestScopesSayWhatTheyAre(t *testing.T) {
	assert.Equal(t, "all namespaces", Scope{}.String())
	assert.Equal(t, "namespace n", Scope{Namespace: "n"}.String())
	assert.Equal(t, "cluster west", Scope{Cluster: "west"}.String())
	assert.Equal(t, "namespace west|n", Scope{"west", "n"}.String())
	assert.Equal(t, "UIDs 8000000000000000-ffffffffffffffff", Shards(ByUID, 2)[1].String())
	assert.Equal(t, "ShardKey(7)", ShardKey(7).String())
}
