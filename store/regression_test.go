package store

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestDropRefusesShardByOwner(t *testing.T) {
	c := openWith(t, "9", pod("n", "a", "1", "1"), pod("n", "b", "2", "2"), pod("n", "c", "3", "3"))
	for _, shard := range Shards(ByOwner, 2) {
		require.ErrorIs(t, dropShard(c, shard), errOwnerShard)
	}
	assert.Equal(t, 3, c.Len())
	assert.Equal(t, "9", c.ResourceVersion())
}

func TestFollowersHearOfVersionsPastARejection(t *testing.T) {
	c := openWith(t, "1")
	rec := follow(c)
	require.Error(t, c.Add(nameless("5")))
	require.NoError(t, c.Bookmark("10"))
	assert.Equal(t, []string{"10"}, observed(rec))
	assert.Equal(t, "1", c.ResourceVersion(), "before the rejected object")
	require.NoError(t, c.Bookmark("11"))
	assert.Equal(t, []string{"10", "11"}, observed(rec))
}

func TestBookmarkWithoutNewsIsNoCommit(t *testing.T) {
	c := openWith(t, "5")
	rec := follow(c)
	require.NoError(t, c.Bookmark("5"))
	assert.Empty(t, observed(rec))
}

func TestObjectInTheShardOfNoPartitionIsWritable(t *testing.T) {
	for _, by := range []ShardKey{ByUID, ByNamespace} {
		t.Run(by.String(), func(t *testing.T) {
			shards := Shards(by, 2)
			in, out := uidIn(shards[0], 1), uidIn(shards[1], 2)
			object := func(id, version string) *corev1.Pod {
				if by == ByNamespace {
					return pod(id, "a", id, version)
				}
				return pod("n", id, id, version)
			}
			c := newPods()
			p := partition(t, c, Scope{Shard: shards[0]})
			require.NoError(t, p.Replace([]*corev1.Pod{object(in, "1")}, "1"))
			require.ErrorIs(t, c.Add(object(in, "2")), errOverlap)
			require.NoError(t, c.Add(object(out, "2")))
			assert.Equal(t, 2, c.Len())
			require.NoError(t, c.Update(object(out, "3")))
			require.NoError(t, c.Delete(object(out, "4")))
			require.ErrorIs(t, c.Delete(object(in, "4")), errOverlap)
			require.NoError(t, c.Add(object(out, "5")))
			key, err := c.KeyOf(object(out, ""))
			require.NoError(t, err)
			require.NoError(t, c.DeleteKey(key))
			key, err = c.KeyOf(object(in, ""))
			require.NoError(t, err)
			require.ErrorIs(t, c.DeleteKey(key), errOverlap)
			assert.Equal(t, 1, c.Len())
			checkCache(t, c)
		})
	}
}

// An object outside of the shard must not take out the partition's object of the same name.
func TestObjectOutsideOfAShardTakesNoKeyOfThePartition(t *testing.T) {
	shards := Shards(ByUID, 2)
	in, out := uidIn(shards[0], 1), uidIn(shards[1], 2)
	c := newPods()
	p := partition(t, c, Scope{Shard: shards[0]})
	require.NoError(t, p.Replace([]*corev1.Pod{pod("n", "a", in, "5")}, "5"))
	require.ErrorIs(t, c.Add(pod("n", "a", out, "6")), errOverlap)
	require.ErrorIs(t, c.Delete(pod("n", "a", out, "6")), errOverlap)
	require.ErrorIs(t, c.Update(pod("n", "b", "", "6")), errOverlap, "nothing says that it is outside")
	assert.Equal(t, []string{"n/a"}, names(c.All()))
}

func TestReplaceMakesNoSnapshot(t *testing.T) {
	listing := list[*Key]{Objects: []*Key{{Name: "a"}, {Name: "b"}}, ResourceVersion: "1"}
	t.Run("objects without versions", func(t *testing.T) {
		c := New(keyItself)
		require.NoError(t, listing.to(c))
		require.NoError(t, listing.to(c))
		assert.False(t, c.Has(Key{Name: "a"}, Version{"u", "1"}))
		assert.Zero(t, snapshots(c))
	})
	t.Run("versions beside the objects", func(t *testing.T) {
		c := New(keyItself)
		listing.Told = []Write[*Key]{{Version: Version{"u", "1"}}, {Version: Version{"v", "1"}}}
		require.NoError(t, listing.to(c))
		require.NoError(t, listing.to(c))
		assert.Zero(t, snapshots(c))
		assert.True(t, c.Has(Key{Name: "a"}, Version{"u", "1"}))
	})
}

func TestShardIsNotRewoundAfterAListWithoutANumber(t *testing.T) {
	c, low, high, uid := halves(t)
	require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(0, 1), "1")}, "first"))
	require.NoError(t, high.Replace(nil, "1"))
	require.NoError(t, high.Add(pod("n", "a", uid(1, 2), "8")))
	require.NoError(t, high.Delete(pod("n", "a", uid(1, 2), "9")))
	require.Error(t, low.Add(nameless("2")), "the version stays")
	require.NoError(t, low.Add(pod("n", "b", uid(0, 3), "3")))
	require.NoError(t, low.Update(pod("n", "a", uid(0, 1), "4")))
	assert.Equal(t, []string{"n/b"}, names(c.All()), "its end is still to come")
	checkCache(t, c)
}

func TestShardForgetsKeysTakenWithoutComparableVersions(t *testing.T) {
	for _, version := range []string{"", "none"} {
		t.Run(fmt.Sprintf("%q", version), func(t *testing.T) {
			_, low, high, uid := halves(t)
			require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(0, 1), version)}, version))
			require.NoError(t, high.Replace([]*corev1.Pod{pod("n", "a", uid(1, 2), version)}, version))
			require.NoError(t, low.Bookmark(version+"1"))
			assert.Zero(t, takenOverIn(low))
		})
	}
}

func TestDeletionMakesRoomInItsBatch(t *testing.T) {
	c, b := budgeted(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("a", 60, 1)}, "1"))
	require.NoError(t, apply(c, deleting(sized("a", 60, 2)), adding(sized("b", 90, 3))))
	require.NoError(t, apply(c, Write[*corev1.Pod]{Type: Deletion, Key: Key{Namespace: "n", Name: "b"}}, adding(sized("c", 100, 4))))
	assert.Equal(t, []string{"c"}, namesOf(c))
	assert.EqualValues(t, 100, b.Bytes())
}

func TestCacheForgetsAFollowerThatStopped(t *testing.T) {
	c := openWith(t, "1")
	follow(c)
	gone := followAndStop(c)
	for range 10 {
		runtime.GC()
	}
	assert.Nil(t, gone.Value())
	runtime.KeepAlive(c)
}

func TestWriteWithoutATypeIsRejectedAsAnyOther(t *testing.T) {
	c := newPods()
	p := partition(t, c, Scope{Cluster: "c1"})
	require.NoError(t, p.Replace([]*corev1.Pod{pod("n", "a", "u", "1")}, "1"))
	for _, replace := range []bool{false, true} {
		batch, _ := begin[*corev1.Pod](p, replace)
		require.NoError(t, batch.Write(Write[*corev1.Pod]{Key: Key{Namespace: "n", Name: "a"}, Version: Version{"u", "2"}}))
		require.ErrorIs(t, batch.Commit("9"), errNoWrite)
		assert.Equal(t, []string{"c1|n/a"}, names(c.All()))
		assert.Equal(t, "1", p.ResourceVersion(), "before the rejected write")
	}
	require.NoError(t, p.Update(pod("n", "a", "u", "3")))
	assert.Equal(t, "3", p.ResourceVersion())
}

func TestListForADroppedPartitionEndsAtOnce(t *testing.T) {
	c := newPods()
	p := partition(t, c, Scope{Namespace: "n"})
	batch, err := begun(p, pod("n", "a", "u", "1"))
	require.NoError(t, err)
	require.NoError(t, c.Drop(Scope{Namespace: "n"}))
	require.ErrorIs(t, batch.Write(adding(pod("n", "b", "u", "1"))), errDropped)
	require.ErrorIs(t, batch.Commit("9"), errDropped)
}
