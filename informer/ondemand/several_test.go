package ondemand

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An object moves between two caches, each of which may be behind the other.
func TestReadsOfAnObjectThatMovesBetweenOwnedCachesNeverGoBack(t *testing.T) {
	for seed := range uint64(100) {
		metas, first := caches(t)
		second := store.New(store.ObjectKey[*object])
		require.NoError(t, second.Replace(nil, "1"))
		random := rand.New(rand.NewPCG(seed, 2))
		now := 1
		b := &backend{answers: func(context.Context, string, int) (*object, error) { return at("u", strconv.Itoa(now)), nil }}
		o := owning(t, b, metas, first)
		o.AddOwned(&second.View)
		require.NoError(t, metas.Replace([]*object{at("u", "1")}, "1"))
		require.NoError(t, first.Add(at("u", "1")))
		all := []*store.Cache[*object]{metas, first, second}
		sent, last := [3]int{1, 1, 1}, 1
		for range 100 {
			if now < 40 && random.IntN(3) == 0 {
				now++ // odd versions belong to the first cache
			}
			to := random.IntN(3)
			if sent[to] < now {
				sent[to]++
				version := at("u", strconv.Itoa(sent[to]))
				if to == 0 || (sent[to]%2 == 1) == (to == 1) {
					must(all[to].Update(version))
				} else if _, ok := all[to].Get(aKey); ok {
					must(all[to].Delete(version))
				}
			}
			got, err := o.Get(t.Context(), aKey)
			require.NoError(t, err, "seed %d", seed)
			require.GreaterOrEqual(t, number(t, got), max(last, sent[0]), "seed %d", seed)
			last = number(t, got)
		}
	}
}

func TestOwnedCachesComeAndGo(t *testing.T) {
	metas, first := caches(t)
	second := store.New(store.ObjectKey[*object])
	b := always(at("u", "7"))
	o := owning(t, b, metas, first)
	read := func() string {
		t.Helper()
		got, err := o.Get(t.Context(), aKey)
		require.NoError(t, err)
		return got.ResourceVersion
	}
	remove := o.AddOwned(&second.View)
	require.NoError(t, metas.Add(at("u", "3")))
	require.NoError(t, second.Replace([]*object{at("u", "5")}, "5"))
	assert.Equal(t, "5", read())
	require.NoError(t, first.Add(at("u", "6")))
	assert.Equal(t, "6", read())
	require.NoError(t, first.Delete(at("u", "7")))
	assert.Equal(t, "7", read(), "version 5 of the other cache is from before")
	assert.Equal(t, 1, b.asked())
	remove()
	remove = o.AddOwned(&second.View)
	assert.Equal(t, "7", read())
	require.NoError(t, second.Update(at("u", "8")))
	assert.Equal(t, "8", read())
	remove()
	b.answers = func(context.Context, string, int) (*object, error) { return at("u", "7"), nil }
	_, err := o.Get(t.Context(), aKey)
	require.ErrorIs(t, err, ErrStale, "a removed cache had version 8")
	require.NoError(t, metas.Update(at("u", "9")))
	assert.Zero(t, o.agreed.Open())
}

// pausing is a follower that holds up those after it while an object is deleted.
type pausing struct{ entered, release chan struct{} }

func (pausing) Start(*store.Snapshot[*object]) {}

func (p pausing) Commit(commit *store.Commit[*object]) {
	if len(commit.Changes) > 0 && commit.Changes[0].Type == store.Deletion {
		close(p.entered)
		<-p.release
	}
}

// The owned cache shows a deletion before Objects hears of it.
func TestReadDuringADeletionDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metas, owned := caches(t)
		require.NoError(t, metas.Add(at("u", "10")))
		p := pausing{make(chan struct{}), make(chan struct{})}
		owned.Follow(p)
		answers := make(chan string)
		b := &backend{answers: func(ctx context.Context, _ string, _ int) (*object, error) {
			select {
			case version := <-answers:
				return at("u", version), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		o := owning(t, b, metas, owned)
		read := func() <-chan string {
			version := make(chan string, 1)
			go func() {
				if got, err := o.Get(t.Context(), aKey); err == nil {
					version <- got.ResourceVersion
				}
			}()
			synctest.Wait()
			return version
		}
		read() // a request is under way
		must(owned.Add(at("u", "12")))
		assert.Equal(t, "12", <-read())
		deleted := make(chan struct{})
		go func() {
			defer close(deleted)
			must(owned.Delete(at("u", "14")))
		}()
		<-p.entered
		second := read()
		for range 2 { // one for each request
			answers <- "10"
			synctest.Wait()
			assert.Empty(t, second, "it was read in version 12 before")
		}
		close(p.release)
		<-deleted
		o.Close()
	})
}

func TestKindsWhoseVersionsCannotBeComparedAreRefused(t *testing.T) {
	for _, version := range []string{"", "abc"} {
		metas := store.New(store.ObjectKey[*object])
		o, err := New(Cluster(always(at("u", "5"))), &metas.View)
		require.NoError(t, err)
		require.NoError(t, metas.Replace([]*object{at("u", "x5")}, version))
		_, err = o.Get(t.Context(), aKey)
		require.ErrorIs(t, err, ErrVersions)
		o.Close()
	}
}

func TestCloseStopsAnOwnedCacheThatIsBeingAdded(t *testing.T) {
	for range 100 {
		metas, owned := caches(t)
		o, err := New(Cluster(always(nil)), &metas.View)
		require.NoError(t, err)
		var both sync.WaitGroup
		both.Go(func() { o.AddOwned(&owned.View) })
		both.Go(o.Close)
		both.Wait()
		require.NoError(t, owned.Add(at("u", "5")))
		for _, view := range o.agreed.owned {
			require.Empty(t, view.versions, "it is still followed")
		}
	}
}

func TestOwnedCacheThatIsAddedAfterCloseIsNotFollowed(t *testing.T) {
	metas, owned := caches(t)
	o := owning(t, always(nil), metas, owned)
	o.Close()
	second := store.New(store.ObjectKey[*object])
	remove := o.AddOwned(&second.View)
	assert.Len(t, o.agreed.owned, 1)
	remove()
	remove()
}

// Between the two calls a list showed that the server was restored.
func TestOwnedCacheIsRemovedOnce(t *testing.T) {
	metas, owned := caches(t)
	o := owning(t, always(nil), metas, owned)
	require.NoError(t, metas.Replace([]*object{at("u", "3")}, "3"))
	second := store.New(store.ObjectKey[*object])
	require.NoError(t, second.Replace([]*object{at("u", "8")}, "8"))
	remove := o.AddOwned(&second.View)
	remove()
	assert.Equal(t, 1, o.agreed.Open())
	require.NoError(t, metas.Replace([]*object{at("u", "2")}, "2"))
	assert.Zero(t, o.agreed.Open())
	remove()
	assert.Zero(t, o.agreed.Open(), "version 8 is of a lost history")
}

// What was read before the cache was added counts, too.
func TestOwnedCacheThatIsBehindAReadIsNotPreferred(t *testing.T) {
	for name, fill := range map[string]func(*testing.T, *store.Cache[*object]){
		"the metadata is behind": func(t *testing.T, metas *store.Cache[*object]) {
			require.NoError(t, metas.Replace([]*object{at("u", "10")}, "10"))
		},
		"the metadata has no version": func(t *testing.T, metas *store.Cache[*object]) {
			failing(t, metas)
			require.Error(t, metas.Replace([]*object{at("u", "10"), storetest.New("ns", "bad", "v", "9")}, "10"))
			require.Empty(t, metas.ResourceVersion())
			require.True(t, metas.Snapshot().Synced())
		},
	} {
		t.Run(name, func(t *testing.T) {
			metas, owned := store.New(store.ObjectKey[*object]), store.New(store.ObjectKey[*object])
			fill(t, metas)
			o, err := New(Cluster(always(at("u", "12"))), &metas.View, WithMaxObjects(1))
			require.NoError(t, err)
			t.Cleanup(o.Close)
			got, err := o.Get(t.Context(), aKey)
			require.NoError(t, err)
			require.Equal(t, "12", got.ResourceVersion)
			require.NoError(t, owned.Replace([]*object{at("u", "11")}, "11"))
			o.AddOwned(&owned.View)
			got, err = o.Get(t.Context(), aKey)
			require.NoError(t, err)
			assert.Equal(t, "12", got.ResourceVersion)
			require.NoError(t, owned.Update(at("u", "13")))
			got, err = o.Get(t.Context(), aKey)
			require.NoError(t, err)
			assert.Equal(t, "13", got.ResourceVersion)
		})
	}
}

// reading is a follower that reads.
type reading func()

func (reading) Start(*store.Snapshot[*object])  {}
func (r reading) Commit(*store.Commit[*object]) { r() }

func TestRequestedVersionsAreForgottenWithTheirFloors(t *testing.T) {
	metas, owned := caches(t)
	var o *Objects[*object]
	read := func() {}
	metas.Follow(reading(func() { read() })) // before Objects hears of the commit
	b := always(at("u", "12"))
	o = owning(t, b, metas, owned)
	request := func() {
		t.Helper()
		_, err := o.Get(t.Context(), aKey)
		require.NoError(t, err)
		require.Len(t, o.agreed.requested, 1)
	}
	require.NoError(t, metas.Add(at("u", "10")))
	request()
	read = func() { o.Cached(aKey) }
	require.NoError(t, metas.Update(at("u", "12")))
	assert.Zero(t, o.agreed.Open())
	assert.Empty(t, o.agreed.requested, "the metadata has passed it")

	b.answers = func(context.Context, string, int) (*object, error) { return at("u", "14"), nil }
	require.NoError(t, metas.Update(at("u", "13")))
	request()
	require.NoError(t, owned.Add(at("u", "11")))
	assert.Len(t, o.agreed.requested, 1, "this watch is behind")
	require.NoError(t, owned.Update(at("u", "14")))
	assert.Empty(t, o.agreed.requested, "this watch has it")
	b.answers = func(context.Context, string, int) (*object, error) { return at("u", "15"), nil }
	require.NoError(t, owned.Delete(at("u", "14")))
	request()
	require.NoError(t, owned.Replace(nil, "20"))
	require.NoError(t, owned.Replace(nil, "11"))
	assert.Zero(t, o.agreed.Open())
	assert.Empty(t, o.agreed.requested, "the server was restored")
}

func TestKindIsReadAgainWhenItsVersionsCanBeCompared(t *testing.T) {
	metas, owned := caches(t)
	o, err := New(Cluster(always(at("u", "5"))), &metas.View)
	require.NoError(t, err)
	t.Cleanup(o.Close)
	remove := o.AddOwned(&owned.View)
	read := func() error {
		_, err := o.Get(t.Context(), aKey)
		return err
	}
	list := func(cache *store.Cache[*object], version string) {
		require.NoError(t, cache.Replace([]*object{at("u", "5")}, version))
	}
	for _, cache := range []*store.Cache[*object]{metas, owned} {
		list(cache, "abc")
		require.ErrorIs(t, read(), ErrVersions)
		list(cache, "7")
		require.NoError(t, read())
	}
	list(metas, "abc")
	list(owned, "8")
	require.ErrorIs(t, read(), ErrVersions, "the list was of another watch")
	list(metas, "8")
	list(owned, "abc")
	require.ErrorIs(t, read(), ErrVersions)
	remove()
	require.NoError(t, read())
}

// Each partition of the metadata has a watch of its own, and the version of one says nothing of the objects
// of another.
func TestScopesOfTheMetadataThatAreBehindEachOther(t *testing.T) {
	metas, owned := store.New(store.ObjectKey[*object]), store.New(store.ObjectKey[*object])
	other, own := partition(t, metas, "m"), partition(t, metas, "ns")
	require.NoError(t, own.Replace([]*object{at("u", "45")}, "45"))
	require.NoError(t, other.Replace(nil, "100"))
	require.NoError(t, owned.Replace(nil, "45"))
	b := always(at("u", "60"))
	o := owning(t, b, metas, owned)
	require.NoError(t, own.Bookmark("46"))
	require.NoError(t, other.Bookmark("101"))
	read := func() string {
		got, err := o.Get(t.Context(), aKey)
		require.NoError(t, err)
		return got.ResourceVersion
	}
	require.Equal(t, "60", read())
	require.Equal(t, 1, b.asked())
	require.NoError(t, own.Bookmark("47"))
	require.NoError(t, owned.Add(at("u", "50")))
	require.Equal(t, "60", read(), "not an earlier state than before")
	require.NoError(t, other.Replace(nil, "102"))
	require.Equal(t, "60", read(), "only a list of its scope says that the server may have been restored")

	require.NoError(t, owned.Update(at("u", "70")))
	asked := b.asked()
	require.Equal(t, "70", read())
	require.Equal(t, asked, b.asked(), "the owned watch is ahead of the metadata")
	require.NoError(t, owned.Delete(at("u", "71")))
	require.NoError(t, own.Replace([]*object{at("u", "45")}, "48"))
	_, err := o.Get(t.Context(), aKey)
	require.ErrorIs(t, err, ErrStale, "a list that is behind that of another scope is no restore")
	require.NoError(t, own.Replace([]*object{at("u", "44")}, "44"))
	require.Equal(t, "60", read(), "and one that is behind its own scope is a restore")
}

// A scope that is dropped says no more what the metadata has received.
func TestDroppedScopeOfTheMetadataIsForgotten(t *testing.T) {
	metas := store.New(store.ObjectKey[*object])
	own := partition(t, metas, "ns")
	require.NoError(t, own.Replace([]*object{at("u", "45")}, "45"))
	b := always(at("u", "120"))
	owned := store.New(store.ObjectKey[*object])
	require.NoError(t, owned.Replace(nil, "45"))
	o := owning(t, b, metas, owned)
	require.NoError(t, own.Bookmark("47"))
	require.NoError(t, metas.Drop(store.Scope{Namespace: "ns"}))
	all := partition(t, metas, "")
	require.NoError(t, all.Replace([]*object{at("u", "100")}, "100"))
	got, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	require.Equal(t, "120", got.ResourceVersion)
	require.NoError(t, all.Update(at("u", "120")))
	require.NoError(t, all.Delete(at("u", "130")))
	require.NoError(t, all.Bookmark("131"))
	_, ok := o.Cached(aKey)
	assert.False(t, ok, "the object is deleted")
	assert.Empty(t, o.agreed.requested)
	assert.Zero(t, o.agreed.Open())
}

// The answer may show what the metadata of a scope never will, if the scope was dropped meanwhile.
func TestAnswerOfBeforeADropOfAScope(t *testing.T) {
	for scope, open := range map[string]int{"ns": 0, "other": 1} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			b := &backend{answers: func(context.Context, string, int) (*object, error) {
				<-release
				return at("u", "120"), nil
			}}
			metas, owned := store.New(store.ObjectKey[*object]), store.New(store.ObjectKey[*object])
			require.NoError(t, partition(t, metas, "ns").Replace([]*object{at("u", "110")}, "110"))
			require.NoError(t, partition(t, metas, "other").Replace(nil, "110"))
			require.NoError(t, owned.Replace([]*object{at("u", "100")}, "100"))
			o := owning(t, b, metas, owned)
			require.NoError(t, partition(t, metas, "ns").Bookmark("111"))
			require.NoError(t, partition(t, metas, "other").Bookmark("111"))
			var reader sync.WaitGroup
			reader.Go(func() { _, _ = o.Get(t.Context(), aKey) })
			synctest.Wait()
			require.NoError(t, metas.Drop(store.Scope{Namespace: scope}))
			close(release)
			reader.Wait()
			assert.Equal(t, open, o.agreed.Open(), "the dropped scope is %s", scope)
			assert.Len(t, o.agreed.requested, open)
			assert.Empty(t, o.agreed.asked)
		})
	}
}

// A cache shows a list before its followers hear of it. A request between the two is later than the list.
func TestRequestBeforeTheFollowersHearOfAListOutlastsIt(t *testing.T) {
	for _, answered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			metas, owned := caches(t)
			require.NoError(t, metas.Replace([]*object{at("u", "90")}, "90"))
			require.NoError(t, owned.Replace([]*object{at("u", "100")}, "100"))
			release := make(chan struct{})
			b := &backend{answers: func(context.Context, string, int) (*object, error) {
				<-release
				return at("u", "120"), nil
			}}
			var o *Objects[*object]
			var reader sync.WaitGroup
			stop := metas.Follow(committed(func() {
				if o == nil {
					return
				}
				reader.Go(func() {
					got, err := o.Get(t.Context(), aKey)
					if assert.NoError(t, err) {
						assert.Equal(t, "120", got.ResourceVersion)
					}
				})
				if answered {
					close(release)
					reader.Wait()
				} else {
					synctest.Wait()
				}
			}))
			o = owning(t, b, metas, owned)
			require.NoError(t, metas.Replace([]*object{at("u", "110")}, "110"))
			stop()
			if !answered {
				close(release)
			}
			reader.Wait()
			require.NoError(t, owned.Update(at("u", "115")))
			got, err := o.Get(t.Context(), aKey)
			require.NoError(t, err)
			assert.Equal(t, "120", got.ResourceVersion, "it was read before; answered before the followers heard: %v", answered)
			require.NoError(t, metas.Replace([]*object{at("u", "115")}, "115"))
			assert.Zero(t, o.agreed.Open(), "a later list")
			assert.Empty(t, o.agreed.requested)
		})
	}
}

// A partition of the metadata that rejected an object does not say that it is deleted.
func TestObjectThatAScopeOfTheMetadataRejectsIsNotDeleted(t *testing.T) {
	metas, owned := store.New(store.ObjectKey[*object]), store.New(store.ObjectKey[*object])
	failing(t, metas)
	own := partition(t, metas, "ns")
	require.NoError(t, own.Replace(nil, "45"))
	bad := storetest.New("ns", "bad", "u", "50")
	require.NoError(t, owned.Replace([]*object{bad}, "50"))
	o := owning(t, always(nil), metas, owned)
	require.Error(t, own.Add(bad))
	require.NoError(t, own.Bookmark("51"))
	got, ok := o.Cached(store.Key{Namespace: "ns", Name: "bad"})
	require.True(t, ok)
	assert.Equal(t, bad, got)
}

func partition(t *testing.T, of *store.Cache[*object], namespace string) *store.Partition[*object] {
	t.Helper()
	p, err := of.Partition(store.Scope{Namespace: namespace})
	require.NoError(t, err)
	return p
}

// A cache shows a commit before its followers hear of it.
func TestObjectReadBeforeTheFollowersHearOfItIsNotForgotten(t *testing.T) {
	metas, owned := caches(t)
	second := store.New(store.ObjectKey[*object])
	require.NoError(t, second.Replace(nil, "1"))
	var o *Objects[*object]
	var reads []string
	read := func() {
		if got, ok := o.Cached(aKey); ok {
			reads = append(reads, got.ResourceVersion)
		}
	}
	stop := owned.Follow(committed(func() {
		if o == nil {
			return
		}
		read()
		assert.NoError(t, second.Update(at("u", "65")))
		read()
	}))
	defer stop()
	require.NoError(t, owned.Add(at("u", "60")))
	require.NoError(t, second.Add(at("u", "60")))
	o = owning(t, always(nil), metas, owned)
	o.AddOwned(&second.View)
	require.NoError(t, owned.Update(at("u", "70")))
	read()
	assert.Equal(t, []string{"70", "70"}, reads)
}

func TestObjectOfAScopeWithoutAListIsUnknown(t *testing.T) {
	metas := store.New(store.ObjectKey[*object])
	require.NoError(t, partition(t, metas, "m").Replace(nil, "5"))
	o, err := New(Cluster(always(at("u", "4"))), &metas.View)
	require.NoError(t, err)
	defer o.Close()
	added := partition(t, metas, "ns")
	_, err = o.Get(t.Context(), aKey)
	require.ErrorIs(t, err, ErrNotSynced)
	require.NoError(t, added.Replace([]*object{at("u", "4")}, "6"))
	_, err = o.Get(t.Context(), aKey)
	require.NoError(t, err)
}

// committed is a follower.
type committed func()

func (committed) Start(*store.Snapshot[*object])  {}
func (c committed) Commit(*store.Commit[*object]) { c() }
