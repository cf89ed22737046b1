package eventqueue

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTransformInFrontOfACollectionRejectsUnderItsKeys(t *testing.T) {
	key := func(name string) (store.Key, error) { return store.Key{Name: name}, nil }
	names := decorate.Transform(New(key), key, func(name string) (string, error) { panic(name) })
	var rejected *store.RejectedError
	require.ErrorAs(t, names.Add("a"), &rejected)
	assert.Equal(t, store.Key{Name: "a"}, rejected.Rejections[0].Key)
}

func TestBatchIsOneCommit(t *testing.T) {
	c := opened(t)
	batch, own := decorate.BeginWatch[*thing](c)
	require.True(t, own)
	for i, name := range []string{"a", "b"} {
		require.NoError(t, batch.Write(store.Write[*thing]{Type: store.Addition, Object: at(name, "u", i+2), Hash: 7}))
	}
	assert.Zero(t, c.Len(), "nothing is queued before the commit")
	require.NoError(t, batch.Commit("5"))
	assert.Equal(t, 2, c.Len())
	assert.Equal(t, "5", c.ResourceVersion())
	assert.True(t, c.Has(store.Key{Name: "a"}, store.VersionOf(at("a", "u", 2)), 7))
}

func TestReplacingBatchDeletesWhatItDoesNotSay(t *testing.T) {
	c := opened(t)
	put(t, c, at("a", "u", 2))
	put(t, c, at("b", "u", 3))
	for c.Len() > 0 {
		take(t, c).Done()
	}
	batch, own := decorate.BeginList[*thing](c)
	require.True(t, own)
	batch.Keep(store.Key{Name: "a"})
	require.NoError(t, batch.Commit("5"))
	q := take(t, c)
	assert.Equal(t, store.Key{Name: "b"}, q.Key())
	q.Done()
	assert.Zero(t, c.Len())
}

// begins start the two kinds of batches.
var begins = []func(store.Store[*thing]) (store.Batch[*thing], bool){decorate.BeginWatch[*thing], decorate.BeginList[*thing]}

func TestBatchEndsWithTheCollection(t *testing.T) {
	for _, begin := range begins {
		c := newThings()
		batch, _ := begin(c)
		write := store.Write[*thing]{Type: store.Addition, Object: at("a", "u", 2)}
		require.NoError(t, batch.Write(write))
		c.Close()
		assert.ErrorIs(t, batch.Write(write), ErrClosed)
		assert.ErrorIs(t, batch.Commit("5"), ErrClosed)
		assert.Zero(t, c.Cache().Len())
	}
}

func TestFollowerIsReadOnly(t *testing.T) {
	cache := newThings().cache
	c := Follow(cache)
	defer c.Close()
	for _, begin := range begins {
		batch, own := begin(c)
		require.True(t, own)
		assert.ErrorIs(t, batch.Write(store.Write[*thing]{Type: store.Addition, Object: at("a", "u", 2)}), ErrReadOnly)
		assert.ErrorIs(t, batch.Commit("5"), ErrReadOnly)
	}
	assert.ErrorIs(t, c.Add(at("a", "u", 1)), ErrReadOnly)
	assert.ErrorIs(t, c.Replace(nil, "1"), ErrReadOnly)
	assert.Zero(t, cache.Len())
}

// wrapped overrides a method of the collection that it embeds.
type wrapped struct {
	*Collection[*thing]
	added int
}

func (w *wrapped) Add(object *thing) error { w.added++; return w.Collection.Add(object) }

func TestBatchDoesNotBypassAWrapper(t *testing.T) {
	w := &wrapped{Collection: opened(t)}
	batch, own := decorate.BeginWatch[*thing](w)
	assert.False(t, own)
	require.NoError(t, batch.Write(store.Write[*thing]{Type: store.Addition, Object: at("a", "u", 2)}))
	require.NoError(t, batch.Commit(""))
	assert.Equal(t, 1, w.added)
}

func TestCollectionKeepsTheLatestByDefault(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	for _, c := range []*Collection[*thing]{New(store.ObjectKey[*thing]), Follow(cache), FollowFiltered(cache, nil)} {
		defer c.Close()
		writes := cache.Update
		if c.owned {
			writes = c.Update
		}
		for version := range 100 {
			assert.NoError(t, writes(at("a", "u", version+1)))
		}
		assert.Equal(t, 1, take(t, c).Len())
	}
}

func TestConformance(t *testing.T) {
	type (
		object = *storetest.Object
		openFn = func() (store.Store[object], store.Reader[object])
	)
	collection := func(compaction Compaction) openFn {
		return func() (store.Store[object], store.Reader[object]) {
			c := New(storetest.ClusterKey, WithCompaction(compaction))
			return c, c.Cache()
		}
	}
	for name, open := range map[string]openFn{
		"keeps all":        collection(KeepAll),
		"keeps the latest": collection(KeepLatest),
	} {
		t.Run(name, func(t *testing.T) { storetest.RunBatches(t, open) })
	}
}
