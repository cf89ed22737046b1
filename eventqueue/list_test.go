package eventqueue

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests hold queue-E7, queue-E8 and queue-E9.

func TestSynced(t *testing.T) {
	t.Run("an empty list", func(t *testing.T) {
		c := newThings()
		assert.False(t, isClosed(c.Synced()))
		require.NoError(t, c.Replace(nil, "1"))
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("only after the last object is settled", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 1), at("a", "u1", 1)}, "1"))
		a, b := take(t, c), take(t, c)
		a.Done()
		assert.False(t, isClosed(c.Synced()), "handing out is not enough")
		b.Fail(errors.New("for ever"))
		assert.True(t, isClosed(c.Synced()), "a failure does not hold it up")
	})
	t.Run("objects that are deleted first", func(t *testing.T) {
		c := newThings(WithCompaction(KeepLatest))
		require.NoError(t, c.Add(at("a", "u1", 1)))
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "1"))
		require.NoError(t, c.Delete(at("a", "u1", 2)))
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("a list with duplicates and a rejected object", func(t *testing.T) {
		c := newThings(WithCompaction(KeepLatest))
		require.NoError(t, c.Add(at("a", "u1", 1)))
		b := at("b", "u2", 1)
		require.ErrorIs(t, c.Replace([]*thing{at("a", "u1", 1), b, b, nil}, "1"), store.ErrBadKey)
		require.NoError(t, c.Delete(at("a", "u1", 2)))
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("events before the first list", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u1", 1)))
		take(t, c).Done()
		require.NoError(t, c.Add(at("b", "u2", 2)))
		b := take(t, c)
		require.NoError(t, c.Add(at("c", "u3", 3)))
		assert.False(t, isClosed(c.Synced()))
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 2), at("c", "u3", 3)}, "3"))
		assert.False(t, isClosed(c.Synced()), "b is out and c waits")
		b.Done()
		assert.False(t, isClosed(c.Synced()))
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("objects that were deleted before the list do not count", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u1", 1)))
		take(t, c).Done()
		require.NoError(t, c.Delete(at("a", "u1", 2)))
		require.NoError(t, c.Replace(nil, "3"))
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("break settles nothing", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "1"))
		for range c.Queues(t.Context()) {
			break
		}
		assert.False(t, isClosed(c.Synced()))
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("a late follower", func(t *testing.T) {
		cache := store.New(store.ObjectKey[*thing])
		require.NoError(t, cache.Replace([]*thing{at("a", "u1", 1)}, "1"))
		c := Follow(cache)
		assert.False(t, isClosed(c.Synced()))
		q := take(t, c)
		assert.True(t, oldest(q).Initial)
		q.Done()
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("a follower of a cache that waits for its list", func(t *testing.T) {
		cache := store.New(store.ObjectKey[*thing])
		require.NoError(t, cache.Add(at("a", "u1", 1)))
		c := Follow(cache)
		take(t, c).Done()
		assert.False(t, isClosed(c.Synced()))
		require.NoError(t, cache.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 2)}, "2"))
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("a key that failed before the last partition was listed", func(t *testing.T) {
		cache := store.New(store.ObjectKey[*thing])
		a, err := cache.Partition(store.Scope{Cluster: "a"})
		require.NoError(t, err)
		b, err := cache.Partition(store.Scope{Cluster: "b"})
		require.NoError(t, err)
		c := Follow(cache, WithBackoff(time.Hour, time.Hour))
		defer c.Close()
		require.NoError(t, a.Replace([]*thing{at("x", "u1", 1)}, "1"))
		take(t, c).Fail(errNo)
		require.NoError(t, b.Replace([]*thing{at("y", "u2", 1)}, "1"))
		assert.False(t, isClosed(c.Synced()), "y waits")
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()), "x was handed out and failed")
		releaseAll(c)
		take(t, c).Done()
	})
	t.Run("a key that is out while the list arrives", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u1", 1)))
		a := take(t, c)
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "1"))
		assert.False(t, isClosed(c.Synced()), "nothing else is left")
		a.Done()
		assert.True(t, isClosed(c.Synced()))
	})
}

// manyThings returns a cache of n objects.
func manyThings(tb testing.TB, n int) *store.Cache[*thing] {
	cache := store.New(store.ObjectKey[*thing])
	things := make([]*thing, n)
	for i := range things {
		things[i] = at(strconv.Itoa(i), "u"+strconv.Itoa(i), 1)
	}
	require.NoError(tb, cache.Replace(things, "1"))
	return cache
}

// counting is a follower that counts commits.
type counting struct{ commits int }

func (*counting) Start(*store.Snapshot[*thing])  {}
func (f *counting) Commit(*store.Commit[*thing]) { f.commits++ }

func TestResyncReachesOneCollectionAndChangesNothing(t *testing.T) {
	for _, n := range []int{0, 1, 1024, 1025, 3*1024 + 7} {
		cache := manyThings(t, n)
		var other counting
		defer cache.Follow(&other)()
		c := Follow(cache)
		defer c.Close()
		for range n {
			take(t, c).Done()
		}
		c.Resync()
		told := map[store.Key]int{}
		for range n {
			q := take(t, c)
			event := q.Newest()
			assert.Equal(t, Resync, event.Origin)
			assert.Equal(t, Modification, event.Type)
			assert.Same(t, event.Prior, event.Object)
			assert.False(t, event.Initial)
			told[q.Key()]++
			q.Done()
		}
		assert.Len(t, told, n)
		assert.Zero(t, c.Len())
		assert.Zero(t, other.commits)
		assert.Equal(t, "1", cache.ResourceVersion())
	}
}

// A large state comes in several commits, and no other commit comes between them.
func TestNoCommitComesBetweenTheCommitsOfAResync(t *testing.T) {
	const n = 3*1024 + 7
	cache := manyThings(t, n)
	c := Follow(cache)
	defer c.Close()
	wrote := make(chan error, 1)
	var origins []Origin
	c.KeepIf(func(e Event[*thing]) bool {
		if origins = append(origins, e.Origin); len(origins) == 1 {
			go func() { wrote <- cache.Update(at("0", "u0", 2)) }()
		}
		return false
	})
	c.Resync()
	require.NoError(t, <-wrote)
	require.Len(t, origins, n+1)
	for i, origin := range origins {
		require.Equal(t, i < n, origin == Resync)
	}
}

// TestWhatLeftTheScope has what becomes of events when a scope is dropped, and added again
// under each policy. Deletions of what left end in "!".
func TestWhatLeftTheScope(t *testing.T) {
	type steps = []string
	for _, row := range []struct {
		name        string
		acked       bool // the first object was
		then        steps
		latest, all []string
	}{
		{"it left", true, steps{"drop"}, []string{"-1(1)!"}, []string{"-1(1)!"}},
		{"it left, and nobody was told", false, steps{"drop"}, []string{"-1!"}, []string{"+1", "-1(1)!"}},
		{"it was deleted", true, steps{"delete"}, []string{"-2(1)"}, []string{"-2(1)"}},
		{"it changed and left", true, steps{"change", "drop"}, []string{"-2(1)!"}, []string{"1>2", "-2(2)!"}},
		{"it left and came back", true, steps{"drop", "list"}, []string{"1>1"}, []string{"-1(1)!", "+1"}},
		{"it left, came back and was deleted", true, steps{"drop", "list", "delete"}, []string{"-2(1)"}, []string{"-1(1)!", "+1", "-2(1)"}},
		{"it left, and another one came", true, steps{"drop", "other"}, []string{"-1(1)!", "+3"}, []string{"-1(1)!", "+3"}},
		{"it left twice", true, steps{"drop", "list", "drop"}, []string{"-1(1)!"}, []string{"-1(1)!", "+1", "-1(1)!"}},
		{"it was deleted, and a new one left", true, steps{"delete", "other", "drop"}, []string{"-2(1)"}, []string{"-2(1)", "+3", "-3(3)!"}},
	} {
		for name, policy := range compactions {
			t.Run(row.name+"/"+name, func(t *testing.T) {
				scope := store.Scope{Cluster: "west"}
				cache := store.New(store.ObjectKey[*thing])
				c := Follow(cache, WithCompaction(policy))
				p, err := cache.Partition(scope)
				require.NoError(t, err)
				require.NoError(t, p.Replace([]*thing{at("a", "u", 1)}, "1"))
				if row.acked {
					take(t, c).Done()
				}
				for _, step := range row.then {
					switch step {
					case "drop":
						err = cache.Drop(scope)
						require.NoError(t, err)
						p, err = cache.Partition(scope)
					case "list":
						err = p.Replace([]*thing{at("a", "u", 1)}, "1")
					case "other":
						err = p.Replace([]*thing{at("a", "v", 3)}, "3")
					case "change":
						err = p.Update(at("a", "u", 2))
					case "delete":
						err = p.Delete(at("a", "u", 2))
					}
					require.NoError(t, err)
				}
				want := row.all
				if policy == KeepLatest {
					want = row.latest
				}
				var got []string
				for i, e := range collect(take(t, c)) {
					word := words([]Event[*thing]{e})[0]
					if e.OutOfScope {
						word += "!"
					}
					assert.False(t, e.OutOfScope && e.Type != Deletion, "event %d", i)
					got = append(got, word)
				}
				assert.Equal(t, want, got)
			})
		}
	}
}

func TestEventAsText(t *testing.T) {
	assert.Equal(t, "Addition of a (Watch)", fmt.Sprint(Event[*thing]{Type: Addition, Origin: Watch, Key: key("a")}))
	assert.Equal(t, "Deletion of a (Watch, left)", fmt.Sprint(Event[*thing]{Type: Deletion, Origin: Watch, Key: key("a"), OutOfScope: true}))
}
