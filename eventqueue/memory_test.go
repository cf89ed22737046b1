package eventqueue

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// heavy is a thing that weighs 4 KiB.
type heavy struct {
	thing
	_ [4096]byte
}

func heavyAt(name, uid string, version int) *heavy {
	return &heavy{thing: thing{name, types.UID(uid), fmt.Sprint(version)}}
}

// live returns how many bytes are reachable.
func live() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers held
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

const kib, mib = 1 << 10, 1 << 20

func TestStalledHandlerOfOneObjectKeepsLittle(t *testing.T) {
	c := New(store.ObjectKey[*heavy], WithCompaction(KeepLatest))
	require.NoError(t, c.Add(heavyAt("a", "u", 1)))
	stalled, err := c.Take(t.Context())
	require.NoError(t, err)
	before := live()
	for i := range 50_000 {
		must(t, c.Update(heavyAt("a", "u", i+2)))
	}
	grown := live() - before
	t.Logf("%d KiB", grown/kib)
	assert.Less(t, grown, 1*mib)
	stalled.Done()
	q, err := c.Take(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "1", oldest(q).Prior.version)
	assert.Equal(t, "50001", q.Newest().Object.version)
}

// TestLargeCommitMakesItsEventsInParts: the events of a list of all objects would need 13 MiB.
func TestLargeCommitMakesItsEventsInParts(t *testing.T) {
	const keys = 100*maxPart + 1
	c := newThings(WithCompaction(KeepLatest))
	commit := func() *store.Commit[*thing] {
		changes := make([]store.Change[*thing], keys)
		for i := range changes {
			name := fmt.Sprint(i)
			object := &thing{name, types.UID(name), "1"}
			changes[i] = store.Change[*thing]{Type: Modification, Key: store.Key{Name: name}, Object: object, Prior: object}
		}
		return &store.Commit[*thing]{Changes: changes, Origin: Watch}
	}
	c.follower.Commit(commit())
	require.Equal(t, keys, c.Len())
	again := commit()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.follower.Commit(again)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(mib))
	assert.Equal(t, keys, c.Len())
}

// TestLargeCommitOfFewWantedObjects: a predicate leaves few events of each part.
func TestLargeCommitOfFewWantedObjects(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	require.NoError(t, cache.Replace(nil, "1"))
	wanted := FollowFiltered(cache, func(o *thing) bool { return o.name[3:] == "00" })
	all := make([]*thing, 10*maxPart)
	var names []string
	for i := range all {
		all[i] = &thing{fmt.Sprintf("%05d", i), types.UID(fmt.Sprint(i)), "2"}
		if i%100 == 0 {
			names = append(names, all[i].name)
		}
	}
	require.NoError(t, cache.Replace(all, "2"))
	var got []string
	for wanted.Len() > 0 {
		q, err := wanted.Take(t.Context())
		require.NoError(t, err)
		got = append(got, q.Key().Name)
		q.Done()
	}
	assert.Equal(t, names, got)
}

func TestStalledHandlerOfManyObjectsKeepsNoMoreThanOneRound(t *testing.T) {
	const keys = 100_000
	c := newThings(WithCompaction(KeepLatest))
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("object-", i)
	}
	version := 0
	round := func() {
		version++
		text := fmt.Sprint(version)
		for _, name := range names {
			must(t, c.Add(&thing{name, types.UID(name), text}))
		}
	}
	round()
	stalled, err := c.Take(t.Context())
	require.NoError(t, err)
	round()
	before := live()
	for range 2 {
		round()
	}
	grown := live() - before
	t.Logf("%d KiB after the first round, %d KiB before it", grown/kib, before/kib)
	assert.Less(t, grown, 1*mib)
	assert.Equal(t, keys, c.Stats().Waiting)
	stalled.Done()
}

func TestHandlerThatFailsForEverOnWhatIsRecreatedForEverKeepsLittle(t *testing.T) {
	c := New(store.ObjectKey[*heavy], WithCompaction(KeepLatest), WithBackoff(time.Hour, time.Hour))
	defer c.Close()
	round := func(from, to int) {
		for i := from; i < to; i++ {
			require.NoError(t, c.Add(heavyAt("a", fmt.Sprint("uid-", i), i+1)))
			q, err := c.Take(t.Context())
			require.NoError(t, err)
			q.Fail(errNo)
			releaseAll(c)
		}
	}
	round(0, 100)
	before := live()
	round(100, 5000)
	grown := live() - before
	t.Logf("%d KiB", grown/kib)
	assert.Less(t, grown, 1*mib)
	assert.Greater(t, c.Stats().Dropped, uint64(4900))
}

func TestMergedEventsPinNothing(t *testing.T) {
	c := New(store.ObjectKey[*heavy], WithCompaction(KeepLatest))
	before := live()
	for i := range 100 {
		for version := range 5 {
			require.NoError(t, c.Add(heavyAt(fmt.Sprint(i), "u", version+1)))
		}
	}
	// The state in the cache and in the queue, and no earlier one. An object of this weight takes
	// up 4864 bytes.
	assert.Less(t, live()-before, 100*6000)
	runtime.KeepAlive(c)
}

func TestMemoryOfManyKeysIsGivenBackThoughSomeStay(t *testing.T) {
	c := newThings()
	before := live()
	stuck := []*Queue[*thing]{}
	for i := range 20_000 {
		must(t, c.Add(at(fmt.Sprint(i), "u", i+1)))
		must(t, c.Delete(at(fmt.Sprint(i), "u", i+2)))
	}
	assert.Greater(t, live()-before, 5*mib)
	for i := 0; c.Len() > len(stuck); i++ {
		q, err := c.Take(t.Context())
		must(t, err)
		if i%1000 == 0 {
			stuck = append(stuck, q)
			continue
		}
		q.Done()
	}
	fallAsleep(t, c)
	assert.Less(t, live()-before, mib/2)
	for _, q := range stuck {
		q.Release()
	}
	for range stuck {
		acknowledgeOne(t, c)
	}
	assert.Zero(t, c.Len())
}

// fallAsleep lets a consumer find nothing and sleep.
func fallAsleep(t *testing.T, c *Collection[*thing]) {
	ctx, cancel := context.WithCancel(t.Context())
	var consumer sync.WaitGroup
	consumer.Go(func() { _, _ = c.Take(ctx) })
	for c.sleeping.Load() == 0 {
		runtime.Gosched()
	}
	cancel()
	consumer.Wait()
}

func acknowledgeOne(t *testing.T, c *Collection[*thing]) {
	q, err := c.Take(t.Context())
	must(t, err)
	q.Done()
}

// must is require.NoError where that would take most of the time.
func must(t *testing.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func TestIdleCollectionIsSmall(t *testing.T) {
	const n = 1000
	all := make([]*Collection[*thing], n)
	caches := make([]*store.Cache[*thing], n)
	for i := range caches {
		caches[i] = store.New(store.ObjectKey[*thing])
		require.NoError(t, caches[i].Add(at("a", "u", 1)))
		caches[i].Snapshot()
	}
	before := live()
	for i := range all {
		all[i] = Follow(caches[i])
		acknowledgeOne(t, all[i])
	}
	each := (live() - before) / n
	t.Logf("%d bytes a collection", each)
	assert.Less(t, each, 2*kib, "when all is done")
	runtime.KeepAlive(all)
}

func TestQueueThatIsKeptPinsNoOthers(t *testing.T) {
	c := New(store.ObjectKey[*heavy])
	before := live()
	var kept, last *Queue[*heavy]
	for i := range 1000 {
		require.NoError(t, c.Add(heavyAt([]string{"a", "b"}[i%2], "u", i+1)))
		q, err := c.Take(t.Context())
		require.NoError(t, err)
		if last != nil {
			last.Done() // two are out at a time
		} else {
			kept = q
		}
		last = q
	}
	assert.Less(t, live()-before, 64*kib)
	assert.Equal(t, 1, kept.Len())
}

func TestQueueThatIsKeptPinsNoOthersAfterClose(t *testing.T) {
	c := New(store.ObjectKey[*heavy], WithCompaction(KeepAll))
	before := live()
	for name := range 20 {
		for version := range 50 {
			require.NoError(t, c.Add(heavyAt(fmt.Sprint(name), "u", version+1)))
		}
	}
	kept, err := c.Take(t.Context())
	require.NoError(t, err)
	full := live() - before
	c.Close()
	assert.Less(t, live()-before, full/5, "the kept queue and the cache are left")
	assert.Equal(t, 50, kept.Len())
}

func TestIdleCollectionKeepsLittleOfItsFirstList(t *testing.T) {
	const collections, objects = 50, 1000
	var list []*thing
	for i := range objects {
		name := fmt.Sprint(i)
		list = append(list, &thing{name, types.UID(name), "1"})
	}
	cache := store.New(store.ObjectKey[*thing])
	require.NoError(t, cache.Replace(list, "1"))
	before := live()
	var idle []*Collection[*thing]
	for range collections {
		c := Follow(cache)
		idle = append(idle, c)
		for range objects {
			q, err := c.Take(t.Context())
			require.NoError(t, err)
			q.Done()
		}
		<-c.Synced()
		fallAsleep(t, c)
	}
	each := (live() - before) / collections
	t.Logf("%d bytes each", each)
	assert.Less(t, each, 3*kib)
	runtime.KeepAlive(idle)
}
