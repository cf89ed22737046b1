package overlay

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = storetest.Object

var podKey = store.Key{Namespace: "ns", Name: "pod"}

func pod(uid, resourceVersion string) *object {
	return storetest.New("ns", "pod", uid, resourceVersion)
}

// over returns a cache with some objects at a resource version, and an overlay of it.
func over(t *testing.T, resourceVersion string, objects ...*object) (*store.Cache[*object], *Overlay[*object]) {
	t.Helper()
	cache := store.New(store.ObjectKey[*object])
	require.NoError(t, cache.Replace(objects, resourceVersion))
	o := New(cache, 0)
	t.Cleanup(o.Close)
	return cache, o
}

// commit makes one batch of some writes.
func commit(into store.Store[*object], replace bool, resourceVersion string, writes ...store.Write[*object]) error {
	b, _ := decorate.Begin(into, replace)
	for _, w := range writes {
		_ = b.Write(w) // Commit returns the error
	}
	return b.Commit(resourceVersion)
}

// shows checks what an overlay has under the key of the pod; nil for nothing.
func shows(t *testing.T, o *Overlay[*object], want *object) {
	t.Helper()
	got, ok := o.Get(podKey)
	assert.Equal(t, want != nil, ok)
	assert.Equal(t, want, got)
}

// reject gives a cache an object that it rejects.
func reject(t *testing.T, cache *store.Cache[*object], resourceVersion string) {
	t.Helper()
	require.Error(t, cache.Add(storetest.New("ns", "", "nameless", resourceVersion)))
}

// wrote tells an overlay of a write.
func wrote(t *testing.T, o *Overlay[*object], written *object) {
	t.Helper()
	require.NoError(t, o.Wrote(written))
}

func TestNewestOfCacheAndWritesIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		written, then *object
		want          string
	}{
		"the cache has the same version":    {pod("u", "2"), pod("u", "2"), "2"},
		"the cache has a newer version":     {pod("u", "2"), pod("u", "3"), "3"},
		"the cache has an older version":    {pod("u", "4"), pod("u", "3"), "4"},
		"the cache has a later object":      {pod("u", "2"), pod("other", "3"), "3"},
		"an earlier object is in the cache": {pod("u", "4"), pod("earlier", "3"), "4"},
	} {
		t.Run(name, func(t *testing.T) {
			cache, o := over(t, "1")
			require.NoError(t, o.Wrote(test.written))
			shows(t, o, test.written)
			require.NoError(t, cache.Add(test.then))
			got, ok := o.Get(podKey)
			require.True(t, ok)
			assert.Equal(t, test.want, got.ResourceVersion)
			assert.Equal(t, test.want == test.written.ResourceVersion && test.written.UID != test.then.UID || test.want == "4", o.Pending() == 1)
		})
	}
}

// client-go's TestMutationCacheOnDelete.
func TestDeletionsEndWrites(t *testing.T) {
	for name, test := range map[string]struct {
		deletion *object
		stays    bool
	}{
		"of the same object, in an older state": {pod("u", "2"), false},
		"of a later object":                     {pod("other", "5"), false},
		"of an earlier object":                  {pod("earlier", "2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			cache, o := over(t, "1")
			written := pod("u", "4")
			require.NoError(t, o.Wrote(written))
			require.NoError(t, cache.Add(storetest.New("ns", "pod", string(test.deletion.UID), "2")))
			require.NoError(t, cache.Delete(test.deletion))
			if test.stays {
				shows(t, o, written)
			} else {
				shows(t, o, nil)
			}
		})
	}
}

// client-go's TestMutationCacheUpdateConcurrentDelete: the answer to an update comes
// after the cache has seen the update and the deletion.
func TestUpdateConcurrentDelete(t *testing.T) {
	cache, o := over(t, "1", pod("u", "1"))
	updated := pod("u", "2")
	require.NoError(t, cache.Update(updated))
	require.NoError(t, cache.Delete(pod("u", "3")))
	require.NoError(t, o.Wrote(updated))
	shows(t, o, nil)
	assert.Zero(t, o.Pending())
	assert.Empty(t, o.told.gone, "the resource version tells of it")
}

// client-go's TestMutationCacheUpdateConcurrentRecreate.
func TestUpdateConcurrentRecreate(t *testing.T) {
	cache, o := over(t, "1", pod("u", "1"))
	updated, replacement := pod("u", "2"), pod("other", "4")
	require.NoError(t, cache.Update(updated))
	require.NoError(t, cache.Delete(pod("u", "3")))
	require.NoError(t, cache.Add(replacement))
	require.NoError(t, o.Wrote(updated))
	shows(t, o, replacement)
	assert.Zero(t, o.Pending())
}

// What client-go's MutationCache cannot tell: the cache never had the object, because it
// was created and deleted between two lists.
func TestCreationThatTheCacheNeverSaw(t *testing.T) {
	cache, o := over(t, "1")
	require.NoError(t, o.Wrote(pod("u", "2")))
	require.NoError(t, cache.Replace(nil, "9"))
	shows(t, o, nil)
	require.NoError(t, o.Wrote(pod("u", "2")))
	shows(t, o, nil)
	assert.Zero(t, o.Len())
}

func TestDeletionWhileTheResourceVersionStands(t *testing.T) {
	bad := store.Write[*object]{Key: store.Key{Namespace: "ns", Name: "bad"}, Err: assert.AnError}
	for name, end := range map[string]func(*store.Cache[*object]) error{
		"a watch":           func(c *store.Cache[*object]) error { return c.Delete(pod("u", "7")) },
		"a list":            func(c *store.Cache[*object]) error { return commit(c, true, "8", bad) },
		"nothing but a key": func(c *store.Cache[*object]) error { return c.DeleteKey(podKey) },
	} {
		t.Run("told by "+name, func(t *testing.T) {
			cache, o := over(t, "1", pod("u", "1"))
			require.Error(t, commit(cache, false, "", bad))
			_ = end(cache)
			require.Equal(t, "1", cache.ResourceVersion())
			require.NoError(t, o.Wrote(pod("u", "5")))
			shows(t, o, nil)
			created := pod("new", "9")
			require.NoError(t, o.Wrote(created))
			shows(t, o, created)
			require.NoError(t, cache.Replace([]*object{created}, "9"))
			assert.Empty(t, o.told.gone, "the resource version tells of it now")
			require.NoError(t, o.Wrote(pod("u", "5")))
			shows(t, o, created)
		})
	}
}

func TestDeletionOfAnObjectWhoseUIDNobodyKnows(t *testing.T) {
	cache, o := over(t, "1", pod("", "1"))
	require.NoError(t, cache.DeleteKey(podKey))
	require.NoError(t, o.Wrote(pod("u", "5")))
	shows(t, o, nil)
}

func TestBookmarkEndsWrites(t *testing.T) {
	cache, o := over(t, "1")
	require.NoError(t, o.Wrote(pod("u", "2")))
	require.NoError(t, cache.Bookmark("3"))
	assert.Zero(t, o.Pending())
	shows(t, o, nil)
}

func TestHistoryThatIsLostEndsWrites(t *testing.T) {
	cache, o := over(t, "10")
	require.NoError(t, o.Wrote(pod("u", "12")))
	require.NoError(t, cache.Replace(nil, "5"))
	shows(t, o, nil)
}

func TestWriteIsForgottenWhenItsLifeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := over(t, "1", pod("u", "1"))
		require.NoError(t, o.Wrote(pod("u", "2")))
		<-time.After(DefaultLife - 1)
		shows(t, o, pod("u", "2"))
		<-time.After(1)
		shows(t, o, pod("u", "1"))
		assert.Zero(t, o.Pending())
	})
}

// Even without readers.
func TestCommitForgetsWritesWhoseLifeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, o := over(t, "1")
		require.NoError(t, o.Wrote(pod("u", "5")))
		<-time.After(DefaultLife)
		require.NoError(t, cache.Bookmark("2"))
		assert.Empty(t, o.writes)
	})
}

func TestWritesOfSeveralTimesAreForgottenEachInItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := over(t, "1")
		for n := range 3 {
			require.NoError(t, o.Wrote(storetest.New("ns", fmt.Sprint(n), "u", "5")))
			<-time.After(DefaultLife / 4)
		}
		<-time.After(DefaultLife / 4)
		for left := 2; left >= 0; left-- {
			assert.Equal(t, left, o.Pending())
			<-time.After(DefaultLife / 4)
		}
		require.NoError(t, o.Wrote(pod("u", "6")))
		<-time.After(DefaultLife)
		assert.Zero(t, o.Pending(), "one that came after all were over")
	})
}

// reader is a follower that reads an overlay, which may not have heard of the commit yet.
type reader struct{ read func() }

func (*reader) Start(*store.Snapshot[*object])  {}
func (r *reader) Commit(*store.Commit[*object]) { r.read() }

func TestFollowerBeforeTheOverlaySeesNoDeletedObject(t *testing.T) {
	cache := store.New(store.ObjectKey[*object])
	require.NoError(t, cache.Replace([]*object{pod("u", "1")}, "1"))
	var o *Overlay[*object]
	defer cache.Follow(&reader{func() { shows(t, o, nil) }})()
	o = New(cache, 0)
	defer o.Close()
	require.NoError(t, o.Wrote(pod("u", "2")))
	require.NoError(t, cache.Delete(pod("u", "3")))
}

func TestWriteForWhichAnIndexPanicsHasNoValue(t *testing.T) {
	_, o := over(t, "1")
	index, err := AddIndex(o, "bad", func(o *object) []string { panic("bad index") })
	require.NoError(t, err)
	require.NoError(t, o.Wrote(pod("u", "2")))
	for range index.Get("x") {
		t.Error("it has no value")
	}
	assert.Equal(t, 1, o.Len())
}

func TestPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := store.New(store.ObjectKey[*object])
		partition, err := cache.Partition(store.Scope{Namespace: "ns"})
		require.NoError(t, err)
		require.NoError(t, partition.Replace([]*object{pod("u", "1")}, "1"))
		o := New(&cache.View, time.Minute)
		defer o.Close()
		require.NoError(t, o.Wrote(pod("u", "3")))
		shows(t, o, pod("u", "3"))
		require.NoError(t, partition.Bookmark("3"))
		shows(t, o, pod("u", "1"))
		require.NoError(t, partition.Delete(pod("u", "5")))
		assert.Empty(t, o.told.gone, "the partition's resource version tells of it")
		require.NoError(t, partition.Add(pod("v", "6")))
		require.NoError(t, partition.DeleteKey(podKey))
		require.NoError(t, o.Wrote(pod("v", "8")))
		shows(t, o, nil)
		require.ErrorIs(t, o.Wrote(storetest.New("elsewhere", "pod", "x", "9")), store.ErrOutOfScope)
	})
}

func TestWhatCannotBeComparedIsRefused(t *testing.T) {
	_, o := over(t, "1")
	require.ErrorIs(t, o.Wrote(pod("", "2")), ErrNoUID)
	require.ErrorContains(t, o.Wrote(pod("u", "")), "no resource version")
	require.Error(t, o.Wrote(pod("u", "not a number")))
	require.ErrorIs(t, o.Wrote(nil), store.ErrBadKey)
	shows(t, o, nil)
}

func TestOlderWriteDoesNotReplaceANewerOne(t *testing.T) {
	_, o := over(t, "1")
	require.NoError(t, o.Wrote(pod("u", "3")))
	require.NoError(t, o.Wrote(pod("u", "2")))
	shows(t, o, pod("u", "3"))
}

func TestClosedOverlayShowsTheCache(t *testing.T) {
	cache, o := over(t, "1")
	require.NoError(t, o.Wrote(pod("u", "2")))
	o.Close()
	o.Close()
	shows(t, o, nil)
	require.NoError(t, o.Wrote(pod("u", "2")))
	shows(t, o, nil)
	require.NoError(t, cache.Add(pod("u", "2")))
	shows(t, o, pod("u", "2"))
}

func TestReadingWithoutWritesCostsNothing(t *testing.T) {
	_, o := over(t, "1", pod("u", "1"))
	assert.Zero(t, testing.AllocsPerRun(100, func() { o.Get(podKey) }))
}

// The cache receives everything up to 10 and still rejects another object.
func TestWriteThatTheCacheNeverGetsIsNotShownForEver(t *testing.T) {
	cache, o := over(t, "1")
	reject(t, cache, "5")
	written := pod("u", "9")
	wrote(t, o, written)
	shows(t, o, written)
	require.NoError(t, cache.Bookmark("10"))
	shows(t, o, nil)
	assert.Zero(t, o.Pending())
}

func TestWriteCallsTheKeyFuncWithoutTheLock(t *testing.T) {
	var o *Overlay[*object]
	calls, locked := 0, 0
	cache := store.New(func(of *object) (store.Key, error) {
		if o != nil {
			calls++
			if o.mu.TryLock() {
				o.mu.Unlock()
			} else {
				locked++
			}
		}
		return store.ObjectKey(of)
	})
	require.NoError(t, cache.Replace(nil, "1"))
	o = New(cache, 0)
	t.Cleanup(o.Close)
	wrote(t, o, pod("u", "9"))
	shows(t, o, pod("u", "9"))
	assert.NotZero(t, calls)
	assert.Zero(t, locked, "a KeyFunc that reads the overlay would block for ever")
}

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
