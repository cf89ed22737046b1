package eventqueue

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// even is a predicate that things enter and leave with every version.
func even(o *thing) bool { return (o.version[len(o.version)-1]-'0')%2 == 0 }

func filtered(keep func(*thing) bool, opts ...Option) (*store.Cache[*thing], *Collection[*thing]) {
	cache := store.New(store.ObjectKey[*thing])
	return cache, FollowFiltered(cache, keep, append([]Option{WithCompaction(KeepAll)}, opts...)...)
}

func TestObjectsThatCrossThePredicateAppearAndGo(t *testing.T) {
	for _, test := range []struct {
		name     string
		versions []int // 0 deletes
		want     []string
	}{
		{"added inside", []int{2}, []string{"+2"}},
		{"added outside", []int{1}, nil},
		{"changed inside", []int{2, 4}, []string{"+2", "2>4"}},
		{"changed outside", []int{1, 3}, nil},
		{"entered", []int{1, 2}, []string{"+2"}},
		{"left", []int{2, 3}, []string{"+2", "-2(2)"}},
		{"deleted inside", []int{2, 0}, []string{"+2", "-9(2)"}},
		{"deleted outside", []int{1, 0}, nil},
		{"left, then deleted", []int{2, 3, 0}, []string{"+2", "-2(2)"}},
		{"left and came back", []int{2, 3, 4}, []string{"+2", "-2(2)", "+4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cache, c := filtered(even)
			for _, version := range test.versions {
				if version == 0 {
					require.NoError(t, cache.Delete(at("a", "u", 9)))
				} else {
					require.NoError(t, cache.Add(at("a", "u", version)))
				}
			}
			if test.want == nil {
				nothingReady(t, c)
				assert.Zero(t, c.Len())
				return
			}
			assert.Equal(t, test.want, words(collect(take(t, c))))
		})
	}
}

func TestLeavingAndComingBackUnseenIsAModification(t *testing.T) {
	cache, c := filtered(even, WithCompaction(KeepLatest))
	require.NoError(t, cache.Add(at("a", "u", 2)))
	take(t, c).Done()
	require.NoError(t, cache.Update(at("a", "u", 3)))
	require.NoError(t, cache.Update(at("a", "u", 4)))
	assert.Equal(t, []string{"2>4"}, words(collect(take(t, c))))
}

func TestRecreationAcrossThePredicate(t *testing.T) {
	cache, c := filtered(even)
	require.NoError(t, cache.Add(at("a", "u1", 2)))
	require.NoError(t, cache.Update(at("a", "u2", 3))) // another object, which is not kept
	require.NoError(t, cache.Update(at("a", "u3", 4))) // and one that is
	assert.Equal(t, []string{"+2", "-2(2)", "+4"}, words(collect(take(t, c))))
}

func TestFinalStateOfWhatLeftIsKnownUnlessAListFoundIt(t *testing.T) {
	cache, c := filtered(even)
	require.NoError(t, cache.Replace([]*thing{at("a", "u1", 2), at("b", "u2", 2)}, "2"))
	require.NoError(t, cache.Update(at("a", "u1", 3)))
	require.NoError(t, cache.Replace([]*thing{at("a", "u1", 3), at("b", "u2", 5)}, "5"))
	a, b := take(t, c).Newest(), take(t, c).Newest()
	assert.Equal(t, Deletion, a.Type)
	assert.True(t, a.FinalStateKnown)
	assert.Equal(t, "2", a.Object.version, "the last state that was kept")
	assert.Equal(t, Deletion, b.Type)
	assert.False(t, b.FinalStateKnown)
}

func TestLateFilteredFollowerIsSyncedAfterWhatItKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := store.New(store.ObjectKey[*thing])
		require.NoError(t, cache.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 2)}, "2"))
		c := FollowFiltered(cache, even)
		none := FollowFiltered(cache, func(*thing) bool { return false })
		assert.True(t, isClosed(none.Synced()))
		assert.False(t, isClosed(c.Synced()))
		q := take(t, c)
		assert.Equal(t, key("b"), q.Key())
		assert.True(t, oldest(q).Initial)
		q.Done()
		assert.True(t, isClosed(c.Synced()))

		require.NoError(t, cache.Update(at("a", "u1", 4)))
		q = take(t, c)
		assert.False(t, oldest(q).Initial, "it entered, and so is news")
	})
}

func TestResyncTellsOfWhatIsKept(t *testing.T) {
	cache, c := filtered(even)
	require.NoError(t, cache.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 2)}, "2"))
	take(t, c).Done()
	c.Resync()
	q := take(t, c)
	assert.Equal(t, []string{"2>2"}, words(collect(q)))
	assert.Equal(t, Resync, oldest(q).Origin)
	q.Done()
	nothingReady(t, c)
}

func TestPanicOfThePredicateRefusesTheObjectAndIsCounted(t *testing.T) {
	cache, c := filtered(func(o *thing) bool {
		if o.version == "3" {
			panic("ouch")
		}
		return true
	})
	require.NoError(t, cache.Add(at("a", "u", 2)))
	require.NoError(t, cache.Update(at("a", "u", 3)))
	require.NoError(t, cache.Update(at("a", "u", 4)))
	assert.Equal(t, []string{"+2", "-2(2)", "+4"}, words(collect(take(t, c))))
	s := c.Stats()
	assert.EqualValues(t, 2, s.PredicateFailures, "as the new state, and as the prior one")
	var panicked *PanicError
	require.ErrorAs(t, s.PredicateErr, &panicked)
	assert.Equal(t, key("a"), panicked.Key)
	assert.Equal(t, "ouch", panicked.Value)
	assert.ErrorContains(t, s.PredicateErr, `predicate: `)

	late := FollowFiltered(cache, func(*thing) bool { panic("ouch") })
	assert.EqualValues(t, 1, late.Stats().PredicateFailures)
	assert.Zero(t, late.Len())
}

func TestFilterAddsNoAllocation(t *testing.T) {
	measure := func(c func(*store.Cache[*thing]) *Collection[*thing]) float64 {
		cache := store.New(store.ObjectKey[*thing])
		queues := c(cache)
		states := []*thing{at("a", "u", 2), at("a", "u", 4)}
		i := 0
		return testing.AllocsPerRun(200, func() {
			i++
			_ = cache.Update(states[i%2])
			q, _ := tryTake(queues)
			q.Done()
		})
	}
	plain := measure(func(cache *store.Cache[*thing]) *Collection[*thing] { return Follow(cache) })
	withFilter := measure(func(cache *store.Cache[*thing]) *Collection[*thing] { return FollowFiltered(cache, even) })
	assert.LessOrEqual(t, withFilter, plain)
}
