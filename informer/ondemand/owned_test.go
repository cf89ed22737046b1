package ondemand

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// caches are the two caches of an Objects, with nothing in them.
func caches(t *testing.T) (metas, owned *store.Cache[*object]) {
	t.Helper()
	metas, owned = store.New(store.ObjectKey[*object]), store.New(store.ObjectKey[*object])
	require.NoError(t, metas.Replace(nil, "1"))
	require.NoError(t, owned.Replace(nil, "1"))
	return metas, owned
}

func owning(t *testing.T, b *backend, metas, owned *store.Cache[*object]) *Objects[*object] {
	t.Helper()
	o, err := New(Cluster(b), &metas.View)
	require.NoError(t, err)
	o.AddOwned(&owned.View)
	t.Cleanup(o.Close)
	return o
}

func TestOwnedObjectsAreNotRequested(t *testing.T) {
	metas, owned := caches(t)
	b := always(at("u", "9"))
	o := owning(t, b, metas, owned)
	read := func() string {
		got, err := o.Get(t.Context(), aKey)
		if _, ok := errors.AsType[*NotFoundError](err); ok {
			return "none"
		}
		require.NoError(t, err)
		return got.ResourceVersion
	}
	require.NoError(t, owned.Add(at("u", "5")))
	assert.Equal(t, "5", read(), "the metadata is behind")
	require.NoError(t, metas.Add(at("u", "5")))
	assert.Equal(t, "5", read())
	require.NoError(t, owned.Update(at("u", "6")))
	assert.Equal(t, "6", read())
	assert.Zero(t, b.asked())

	require.NoError(t, metas.Update(at("u", "9")))
	assert.Equal(t, "9", read(), "the owned objects are behind")
	assert.Equal(t, 1, b.asked())
	require.NoError(t, owned.Update(at("u", "9")))
	assert.Zero(t, o.Stats().Kept, "there is no second copy")
	require.NoError(t, metas.Delete(at("u", "10")))
	assert.Equal(t, "none", read(), "the owned objects do not show the deletion yet")
	assert.Equal(t, 1, b.asked())
}

func TestCloseEndsReadsOfOwnedCaches(t *testing.T) {
	metas, owned := caches(t)
	o := owning(t, always(at("u", "9")), metas, owned)
	assert.NotPanics(t, func() { o.AddOwned(nil)() })
	require.NoError(t, metas.Add(at("u", "5")))
	require.NoError(t, owned.Add(at("u", "5")))
	_, ok := o.Cached(aKey)
	assert.True(t, ok)
	o.Close()
	_, ok = o.Cached(aKey)
	assert.False(t, ok)
	_, err := o.Get(t.Context(), aKey)
	assert.ErrorIs(t, err, ErrClosed)
}

func TestOwnedObjectBeforeTheMetadataIsSynced(t *testing.T) {
	metas, owned := store.New(store.ObjectKey[*object]), store.New(store.ObjectKey[*object])
	require.NoError(t, owned.Replace([]*object{at("u", "5")}, "7"))
	o := owning(t, always(nil), metas, owned)
	got, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, "5", got.ResourceVersion)
	_, err = o.Get(t.Context(), store.Key{Namespace: "ns", Name: "b"})
	assert.ErrorIs(t, err, ErrNotSynced)
	require.NoError(t, metas.Replace(nil, "6"))
	_, err = o.Get(t.Context(), aKey)
	_, ok := errors.AsType[*NotFoundError](err)
	assert.True(t, ok, "%v", err)
}

// An object that was owned for a while is not read in the state that it had before.
func TestObjectThatLeavesIsRequestedAnew(t *testing.T) {
	metas, owned := caches(t)
	b := always(at("u", "5"))
	o := owning(t, b, metas, owned)
	require.NoError(t, metas.Add(at("u", "5")))
	_, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)

	require.NoError(t, owned.Add(at("u", "6")))
	require.NoError(t, owned.Delete(at("u", "7")))
	_, err = o.Get(t.Context(), aKey)
	require.ErrorIs(t, err, ErrStale, "the server says 5, although the owned objects had 6")
	b.answers = func(context.Context, string, int) (*object, error) { return at("u", "7"), nil }
	got, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, "7", got.ResourceVersion)

	// The departure ends as soon as the metadata is not behind any more.
	assert.Equal(t, 1, o.agreed.Open())
	require.NoError(t, metas.Bookmark("6"))
	assert.Equal(t, 1, o.agreed.Open())
	require.NoError(t, metas.Update(at("u", "7")))
	assert.Zero(t, o.agreed.Open())
	require.NoError(t, owned.Add(at("u", "8")))
	require.NoError(t, owned.Delete(at("u", "9")))
	require.NoError(t, owned.Replace(nil, "8")) // the server lost what came after 8
	assert.Zero(t, o.agreed.Open())
}

// failing makes a cache reject objects with the name bad.
func failing(t *testing.T, cache *store.Cache[*object]) {
	t.Helper()
	_, err := store.AddIndex(cache, "fails", func(o *object) []string {
		if o.Name == "bad" {
			panic("bad")
		}
		return nil
	})
	require.NoError(t, err)
}

// A rejected object holds back the version of the metadata, but hides no deletion of others.
func TestDeletionIsSeenWhileAnotherObjectIsRejected(t *testing.T) {
	metas, owned := caches(t)
	failing(t, metas)
	b := always(at("u", "20"))
	o := owning(t, b, metas, owned)
	require.NoError(t, metas.Add(at("u", "5")))
	require.Error(t, metas.Add(storetest.New("ns", "bad", "v", "9")))
	require.NoError(t, metas.Update(at("u", "15")))
	require.Equal(t, "5", metas.ResourceVersion())
	got, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	require.Equal(t, "20", got.ResourceVersion)
	assert.Equal(t, 1, o.agreed.Open())

	require.NoError(t, metas.Delete(at("u", "30")))
	_, err = o.Get(t.Context(), aKey)
	_, missing := errors.AsType[*NotFoundError](err)
	assert.True(t, missing, "%v", err)
	assert.Equal(t, 1, b.asked())
	assert.Zero(t, o.agreed.Open())
	assert.Zero(t, o.Stats().Kept)
}

// A rejected object exists. No change of the metadata says how old an answer is, so none is kept.
func TestObjectWhoseMetadataAreRejectedIsRequested(t *testing.T) {
	bad := func(version string) *object { return storetest.New("ns", "bad", "u", version) }
	key, other := store.Key{Namespace: "ns", Name: "bad"}, store.Key{Namespace: "ns", Name: "other"}
	for _, scoped := range []bool{false, true} {
		metas := store.New(store.ObjectKey[*object])
		failing(t, metas)
		var into store.Store[*object] = metas
		if scoped {
			into = partition(t, metas, "ns")
		}
		require.Error(t, into.Replace([]*object{bad("5")}, "5"))
		b := &backend{answers: func(_ context.Context, _ string, nth int) (*object, error) { return bad(strconv.Itoa(nth)), nil }}
		o, err := New(Cluster(b), &metas.View)
		require.NoError(t, err)
		defer o.Close()
		for _, version := range []string{"1", "2"} {
			got, err := o.Get(t.Context(), key)
			require.NoError(t, err)
			assert.Equal(t, version, got.ResourceVersion)
		}
		_, err = o.Get(t.Context(), other)
		assert.True(t, apierrors.IsNotFound(err))
		assert.Equal(t, 2, b.asked())

		require.NoError(t, into.Delete(bad("9")))
		_, err = o.Get(t.Context(), key)
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
		assert.Equal(t, 2, b.asked())

		require.Error(t, into.Add(storetest.New("ns", "", "v", "10")))
		_, err = o.Get(t.Context(), other)
		require.NoError(t, err)
		assert.Equal(t, 3, b.asked(), "it may be the one without a name")
	}
}

// A deletion by key has no version. It does not say what the metadata has caught up with.
func TestDeletionWithoutAVersionEndsNoFloor(t *testing.T) {
	metas, owned := caches(t)
	b := always(at("u", "5"))
	o := owning(t, b, metas, owned)
	require.NoError(t, metas.Add(at("u", "5")))
	require.NoError(t, metas.Add(storetest.New("ns", "other", "v", "6")))
	require.NoError(t, owned.Add(at("u", "7")))
	require.NoError(t, owned.Delete(at("u", "8")))
	require.NoError(t, metas.DeleteKey(store.Key{Namespace: "ns", Name: "other"}))
	_, err := o.Get(t.Context(), aKey)
	require.ErrorIs(t, err, ErrStale, "the owned objects had 7")
	require.NoError(t, metas.Update(at("u", "8")))
	assert.Zero(t, o.agreed.Open())
}

// An answer that was on its way while the object was owned is not kept: it is older.
func TestAnswerFromBeforeTheObjectWasOwned(t *testing.T) {
	metas, owned := caches(t)
	require.NoError(t, metas.Add(at("u", "4")))
	b := &backend{answers: func(context.Context, string, int) (*object, error) {
		must(owned.Add(at("u", "5")))
		return at("u", "4"), nil
	}}
	o := owning(t, b, metas, owned)
	_, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Zero(t, o.Stats().Kept)
}

// history is a server whose two watches deliver its changes at their own pace.
type history struct {
	random       *rand.Rand
	changes      []change
	objects      map[string]*object
	absent       map[string]int // the last version at which an object did not exist
	metas, owned *store.Cache[*object]
	sent         [2]int // the changes that metas and owned have
}

type change struct {
	name     string
	old, new *object
	version  string
}

const isMine = "mine"

func isOwned(o *object) bool { return o != nil && o.Payload == isMine }

func (h *history) version() int { return len(h.changes) + 1 }

// step makes a change of an object, or lets a watch go on.
func (h *history) step() {
	switch h.random.IntN(12) {
	case 0, 1, 2, 3:
		h.change(strconv.Itoa(h.random.IntN(2)))
	case 4, 5, 6:
		h.send(0)
	case 7, 8, 9:
		h.send(1)
	case 10:
		h.list(h.random.IntN(2))
	case 11:
		if to := h.random.IntN(2); h.sent[to] == len(h.changes) {
			must(h.cache(to).Bookmark(strconv.Itoa(h.version())))
		}
	}
}

func (h *history) cache(of int) *store.Cache[*object] {
	return []*store.Cache[*object]{h.metas, h.owned}[of]
}

func (h *history) change(name string) {
	old := h.objects[name]
	c := change{name: name, old: old, version: strconv.Itoa(h.version() + 1)}
	if old == nil || h.random.IntN(4) > 0 {
		c.new = storetest.New("ns", name, "u"+c.version, c.version)
		if old != nil {
			c.new.UID = old.UID
		}
		if h.random.IntN(2) == 0 {
			c.new.Payload = isMine
		}
	}
	h.changes = append(h.changes, c)
	if h.objects[name] = c.new; c.new == nil {
		h.absent[name] = h.version()
	}
}

// send delivers the next change to a watch.
func (h *history) send(to int) {
	if h.sent[to] == len(h.changes) {
		return
	}
	c := h.changes[h.sent[to]]
	h.sent[to]++
	old, now := c.old, c.new
	if to == 1 && !isOwned(old) {
		old = nil
	}
	if to == 1 && !isOwned(now) {
		now = nil
	}
	switch {
	case now != nil:
		must(h.cache(to).Update(now))
	case old != nil:
		last := *old
		last.ResourceVersion = c.version
		must(h.cache(to).Delete(&last))
	}
}

func (h *history) list(to int) {
	var all []*object
	for _, o := range h.objects {
		if o != nil && (to == 0 || isOwned(o)) {
			all = append(all, o)
		}
	}
	must(h.cache(to).Replace(all, strconv.Itoa(h.version())))
	h.sent[to] = len(h.changes)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// However the two watches and the requests interleave, reads of an object never go back, and are
// never older than the metadata.
func TestReadsNeverGoBackAgainstAModel(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{random: rand.New(rand.NewPCG(seed, 1)), objects: map[string]*object{}, absent: map[string]int{}}
			h.metas, h.owned = caches(t)
			b := &backend{answers: func(_ context.Context, name string, _ int) (*object, error) {
				answer := h.objects[name]
				for range h.random.IntN(4) { // while the answer is on its way
					h.step()
				}
				if answer == nil {
					return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
				}
				return answer, nil
			}}
			o := owning(t, b, h.metas, h.owned)
			seen := map[string]int{}
			for range 150 {
				h.step()
				name := strconv.Itoa(h.random.IntN(2))
				key := store.Key{Namespace: "ns", Name: name}
				if whole, ok := o.ownedObject(key); ok { // another reader
					seen[name] = max(seen[name], number(t, whole))
				}
				least := seen[name]
				if m, ok := h.metas.Get(key); ok {
					least = max(least, number(t, m))
				}
				got, err := o.Get(t.Context(), key)
				if _, ok := errors.AsType[*NotFoundError](err); ok {
					require.True(t, least == 0 || h.absent[name] > least, "%s exists since %d", name, least)
					continue
				}
				require.NoError(t, err)
				require.GreaterOrEqual(t, number(t, got), least, name)
				seen[name] = number(t, got)
			}
		})
	}
}

func number(t *testing.T, o *object) int {
	t.Helper()
	n, err := strconv.Atoi(o.ResourceVersion)
	require.NoError(t, err)
	return n
}
