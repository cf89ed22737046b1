package store

import (
	"fmt"
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
				assert.False(t, shards[i-1].overlaps(shard))
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

func TestShardsThatCoverAndOverlap(t *testing.T) {
	shard := func(by ShardKey, from, to uint64) Shard { return Shard{by, from, to} }
	for _, tt := range []struct {
		a, b                       Shard
		aCovers, bCovers, overlaps bool
	}{
		{Shard{}, shard(ByUID, 5, 9), true, false, true},
		{Shard{}, shard(ByNamespace, 5, 9), true, false, true},
		{Shard{}, shard(ByNamespace, 0, 0), true, true, true},
		{shard(ByUID, 5, 9), shard(ByUID, 5, 9), true, true, true},
		{shard(ByUID, 5, 9), shard(ByUID, 6, 9), true, false, true},
		{shard(ByUID, 5, 9), shard(ByUID, 8, 0), false, false, true},
		{shard(ByUID, 5, 0), shard(ByUID, 8, 0), true, false, true},
		{shard(ByUID, 5, 9), shard(ByUID, 9, 0), false, false, false},
		{shard(ByUID, 5, 9), shard(ByUID, 0, 5), false, false, false},
		{shard(ByUID, 5, 9), shard(ByNamespace, 9, 0), false, false, true},
		{shard(ByOwner, 0, 0), shard(ByUID, 5, 9), false, false, true},
	} {
		name := fmt.Sprintf("%v and %v", tt.a, tt.b)
		assert.Equal(t, tt.aCovers, tt.a.covers(tt.b), name)
		assert.Equal(t, tt.bCovers, tt.b.covers(tt.a), name)
		assert.Equal(t, tt.overlaps, tt.a.overlaps(tt.b), name)
		assert.Equal(t, tt.overlaps, tt.b.overlaps(tt.a), name)
	}
}

func TestScopesSayTheirShard(t *testing.T) {
	half := Shards(ByUID, 2)[1]
	assert.Equal(t, "all namespaces, UIDs 8000000000000000-ffffffffffffffff", Scope{Shard: half}.String())
	assert.Equal(t, "namespace west|n, UIDs 8000000000000000-ffffffffffffffff", Scope{"west", "n", half}.String())
	assert.Equal(t, "namespace n", Scope{Namespace: "n"}.String())
	assert.Equal(t, "ShardKey(7)", ShardKey(7).String())
}
