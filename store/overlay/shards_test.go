package overlay

import (
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// in returns a UID that is in a shard.
func in(shard store.Shard) string {
	for n := 0; ; n++ {
		if uid := fmt.Sprint("uid-", n); shard.Contains(store.ShardHash(uid)) {
			return uid
		}
	}
}

// One shard that is ahead says nothing of what the others have been told.
func TestShardThatIsAheadEndsNoWritesOfOthers(t *testing.T) {
	shards := store.Shards(store.ByUID, 2)
	cache := store.New(store.ObjectKey[*object])
	ahead, err := cache.Partition(store.Scope{Shard: shards[0]})
	require.NoError(t, err)
	behind, err := cache.Partition(store.Scope{Shard: shards[1]})
	require.NoError(t, err)
	o := New(cache, 0)
	defer o.Close()
	require.NoError(t, ahead.Replace(nil, "100"))
	require.NoError(t, behind.Replace(nil, "10"))

	written := pod(in(shards[1]), "50")
	require.NoError(t, o.Wrote(written))
	shows(t, o, written)
	require.NoError(t, ahead.Bookmark("101"))
	shows(t, o, written)
	require.NoError(t, behind.Bookmark("50"))
	shows(t, o, nil)

	require.NoError(t, o.Wrote(pod(in(shards[0]), "99")))
	shows(t, o, nil)
}

func TestShardsByNamespace(t *testing.T) {
	cache := store.New(store.ObjectKey[*object])
	shard := store.Shards(store.ByNamespace, 2)[0]
	if !shard.Contains(store.ShardHash("ns")) {
		shard = store.Shards(store.ByNamespace, 2)[1]
	}
	partition, err := cache.Partition(store.Scope{Shard: shard})
	require.NoError(t, err)
	o := New(cache, 0)
	defer o.Close()
	require.NoError(t, partition.Replace(nil, "10"))
	require.NoError(t, o.Wrote(pod("u", "9")))
	shows(t, o, nil)
	require.NoError(t, o.Wrote(pod("u", "11")))
	shows(t, o, pod("u", "11"))
}

// Objects that leave with their scope are not deleted, and so need no memory.
func TestDroppedScopeLeavesNothingBehind(t *testing.T) {
	cache := store.New(store.ObjectKey[*object])
	scope := store.Scope{Namespace: "ns"}
	partition, err := cache.Partition(scope)
	require.NoError(t, err)
	_, err = cache.Partition(store.Scope{Namespace: "other"})
	require.NoError(t, err)
	o := New(cache, 0)
	defer o.Close()
	require.NoError(t, partition.Replace([]*object{pod("u", "1"), storetest.New("ns", "b", "v", "2")}, "2"))
	require.NoError(t, o.Wrote(pod("u", "3")))
	err = cache.Drop(scope)
	require.NoError(t, err)
	shows(t, o, nil)
	assert.Zero(t, o.Pending())
	assert.Empty(t, o.told.gone)

	again, err := cache.Partition(scope)
	require.NoError(t, err)
	require.NoError(t, o.Wrote(pod("u", "4")))
	shows(t, o, pod("u", "4"))
	require.NoError(t, again.Replace([]*object{pod("u", "4")}, "5"))
	assert.Zero(t, o.Pending())
}

// A first list with a rejected object gives the cache no resource version.
func TestDeletionsOfClustersWhileThereIsNoResourceVersion(t *testing.T) {
	key := store.Key{Cluster: "c", Namespace: "ns", Name: "pod"}
	cache := store.New(func(o *object) (store.Key, error) {
		return store.Key{Cluster: "c", Namespace: o.Namespace, Name: o.Name}, nil
	})
	o := New(cache, 0)
	defer o.Close()
	require.Error(t, commit(cache, true, "5",
		store.Write[*object]{Type: store.Addition, Object: pod("u", "2")},
		store.Write[*object]{Key: store.Key{Cluster: "c", Namespace: "ns", Name: "bad"}, Err: assert.AnError}))
	require.Empty(t, cache.ResourceVersion())
	require.NoError(t, cache.Delete(pod("u", "7")))
	require.NoError(t, o.Wrote(pod("u", "6")))
	_, ok := o.Get(key)
	assert.False(t, ok)
}
