package eventqueue

import (
	"errors"
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

// chosen returns the waiting events after a predicate chose: of an addition of version
// 1, modifications to 2 and 3, a deletion and an addition of another object.
func chosen(t *testing.T, keep func(Event[*thing]) bool) (*Collection[*thing], []string) {
	c := opened(t)
	c.KeepIf(keep)
	for i := range 3 {
		put(t, c, at("a", "u", i+1))
	}
	remove(t, c, at("a", "u", 4))
	put(t, c, at("a", "v", 5))
	put(t, c, at("b", "w", 6))
	return c, words(collect(take(t, c)))
}

func TestKeepIfChoosesSingleEvents(t *testing.T) {
	for name, row := range map[string]struct {
		keep func(Event[*thing]) bool
		want []string
	}{
		"everything":     {func(Event[*thing]) bool { return true }, []string{"+1", "1>2", "2>3", "-4(3)", "+5"}},
		"nothing":        {func(Event[*thing]) bool { return false }, []string{"+5"}},
		"one":            {func(e Event[*thing]) bool { return e.Object.version == "2" }, []string{"+2", "-4(2)", "+5"}},
		"the first":      {func(e Event[*thing]) bool { return e.Object.version == "1" }, []string{"+1", "-4(1)", "+5"}},
		"deletions":      {func(e Event[*thing]) bool { return e.Type == Deletion }, []string{"-4", "+5"}},
		"the last":       {func(e Event[*thing]) bool { return e.Object.version == "5" }, []string{"+5"}},
		"but deletions":  {func(e Event[*thing]) bool { return e.Type != Deletion }, []string{"+1", "1>2", "2>3", "-4(3)", "+5"}},
		"modifications":  {func(e Event[*thing]) bool { return e.Type == Modification }, []string{"+2", "2>3", "-4(3)", "+5"}},
		"first and last": {func(e Event[*thing]) bool { return e.Type == Addition }, []string{"+1", "-4(1)", "+5"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, have := chosen(t, row.keep)
			assert.Equal(t, row.want, have)
			assert.Zero(t, c.Stats().PredicateFailures)
			assert.EqualValues(t, 5-len(row.want), c.Stats().Merged)
		})
	}
}

func TestPredicateOfKeepIfThatPanicsCountsAsFalse(t *testing.T) {
	c, have := chosen(t, func(Event[*thing]) bool { panic("ouch") })
	assert.Equal(t, []string{"+5"}, have)
	assert.EqualValues(t, 6, c.Stats().PredicateFailures)
	var panicked *PanicError
	require.ErrorAs(t, c.Stats().PredicateErr, &panicked)
	assert.Equal(t, key("b"), panicked.Key)
	assert.Equal(t, "ouch", panicked.Value)
	assert.ErrorContains(t, c.Stats().PredicateErr, `predicate: `)
}

func TestKeepIfNeverForgetsWhatAHandlerMayKnow(t *testing.T) {
	c := opened(t)
	c.KeepIf(func(Event[*thing]) bool { return false })
	put(t, c, at("a", "u", 1))
	q := take(t, c)
	remove(t, c, at("a", "u", 2))
	q.Fail(errors.New("no"))
	assert.Equal(t, 1, c.Stats().Events, "what was put back is merged as well")
	put(t, c, at("a", "v", 3))
	assert.Equal(t, []string{"-2", "+3"}, words(collect(take(t, c))))
}

// A deletion that KeepIf chose of another object is no reason to forget the deletion of the first one.
func TestKeepIfKeepsTheDeletionOfAnObjectThatWasHandedOver(t *testing.T) {
	c := opened(t)
	c.KeepIf(func(e Event[*thing]) bool { return e.Object.uid == "v" && e.Type == Deletion })
	put(t, c, at("a", "u", 1))
	q := take(t, c)
	require.Equal(t, []string{"+1"}, words(collect(q)))
	q.Fail(errors.New("no"))
	remove(t, c, at("a", "u", 2))
	put(t, c, at("a", "v", 3))
	remove(t, c, at("a", "v", 4))
	assert.Equal(t, []string{"-2", "-4"}, words(collect(take(t, c))))
}

func TestKeepIfLeavesABacklogThatCameBefore(t *testing.T) {
	c := opened(t, WithCompaction(KeepAll))
	for i := range 100 {
		put(t, c, at("a", "u", i+1))
	}
	c.KeepIf(func(e Event[*thing]) bool { return false })
	put(t, c, at("a", "u", 101))
	put(t, c, at("a", "u", 102))
	assert.EqualValues(t, 1, c.Stats().Merged)
	got := words(collect(take(t, c)))
	assert.Len(t, got, 101)
	assert.Equal(t, []string{"99>100", "100>102"}, got[99:])
}

func TestKeepIfTakesThePlaceOfTheCompaction(t *testing.T) {
	c := opened(t, WithCompaction(KeepAll))
	asked := 0
	c.KeepIf(func(Event[*thing]) bool { asked++; return asked <= 5 })
	for i := range 10 {
		put(t, c, at("a", "u", i+1))
	}
	assert.Equal(t, 10, asked, "once for each event")
	assert.Equal(t, []string{"+1", "1>2", "2>3", "3>4", "4>5", "5>10"}, words(collect(take(t, c))))
	c.KeepIf(nil)
	for i := range 10 {
		put(t, c, at("b", "v", i+11))
	}
	assert.Equal(t, 10, asked)
	assert.Equal(t, 10, take(t, c).Len())
}

func TestKeepIfForgetsOldIncarnationsThatItDoesNotKeep(t *testing.T) {
	const rounds = 20
	for name, row := range map[string]struct {
		keep func(Event[*thing]) bool
		most int
	}{
		"nothing":   {func(Event[*thing]) bool { return false }, 3},
		"deletions": {func(e Event[*thing]) bool { return e.Type == Deletion }, rounds},
	} {
		t.Run(name, func(t *testing.T) {
			c := opened(t)
			c.KeepIf(row.keep)
			for i := range rounds {
				put(t, c, at("a", string(rune('a'+i)), i+1))
				q := take(t, c)
				assert.LessOrEqual(t, q.Len(), row.most)
				q.Release()
			}
			assert.Equal(t, name == "nothing", c.Stats().Dropped > 0)
			if name == "deletions" {
				assert.Equal(t, rounds, take(t, c).Len(), "all deletions, and the last addition")
			}
		})
	}
}

func TestWhatKeepIfChoseStaysWhenItIsPutBack(t *testing.T) {
	c := opened(t)
	c.KeepIf(func(e Event[*thing]) bool { return e.Object.version == "1" })
	put(t, c, at("a", "u", 1))
	q := take(t, c)
	put(t, c, at("a", "u", 2))
	q.Release()
	put(t, c, at("a", "u", 3))
	assert.Equal(t, []string{"+1", "1>3"}, words(collect(take(t, c))))
}
