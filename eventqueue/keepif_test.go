package eventqueue

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// A selected deletion of another object is no reason to forget the deletion of the first one.
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

func TestKeepIfMergesABacklogThatCameBefore(t *testing.T) {
	c := opened(t, WithCompaction(KeepAll))
	for i := range 100 {
		put(t, c, at("a", "u", i+1))
	}
	c.KeepIf(func(e Event[*thing]) bool { return false })
	put(t, c, at("a", "u", 101))
	assert.EqualValues(t, 100, c.Stats().Merged)
	assert.Equal(t, []string{"+101"}, words(collect(take(t, c))))
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
				q.Requeue()
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
	q.Requeue()
	put(t, c, at("a", "u", 3))
	assert.Equal(t, []string{"+1", "1>3"}, words(collect(take(t, c))))
}
