package eventqueue

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// compacted returns what waits after a compactor was asked about: an addition of
// version 1, modifications to 2 and 3, a deletion and an addition of another object.
func compacted(t *testing.T, compactor Compactor[*thing]) (*Collection[*thing], []string) {
	c := newThings()
	for i := range 3 {
		require.NoError(t, c.Add(at("a", "u", i+1)))
	}
	require.NoError(t, c.Delete(at("a", "u", 4)))
	require.NoError(t, c.Add(at("a", "v", 5)))
	require.NoError(t, c.Add(at("b", "w", 6)))
	c.CompactBy(compactor)
	return c, words(collect(take(t, c)))
}

func TestCompactorSaysWhatIsToldOneByOne(t *testing.T) {
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
			c, have := compacted(t, func(events []Event[*thing]) []Event[*thing] {
				return slices.DeleteFunc(events, func(e Event[*thing]) bool { return !row.keep(e) })
			})
			assert.Equal(t, row.want, have)
			assert.Zero(t, c.Stats().CompactionFailures)
			assert.EqualValues(t, 5-len(row.want), c.Stats().Merged)
		})
	}
}

func TestCompactorCannotDoHarm(t *testing.T) {
	var earlier []Event[*thing]
	for name, compactor := range map[string]Compactor[*thing]{
		"panic":     func([]Event[*thing]) []Event[*thing] { panic("ouch") },
		"twice":     func(e []Event[*thing]) []Event[*thing] { return []Event[*thing]{e[4], e[4]} },
		"backwards": func(e []Event[*thing]) []Event[*thing] { slices.Reverse(e); return e },
		"made up": func([]Event[*thing]) []Event[*thing] {
			return []Event[*thing]{{Type: Addition, Object: at("a", "x", 9)}}
		},
		"of another": func(e []Event[*thing]) []Event[*thing] { e[0].mark = 6; return e[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			c, have := compacted(t, compactor)
			assert.Equal(t, []string{"+1", "1>2", "2>3", "-4(3)", "+5"}, have, "kept as without it")
			assert.EqualValues(t, 1, c.Stats().CompactionFailures)
			var failure *CompactionError
			require.ErrorAs(t, c.Stats().CompactionErr, &failure)
			assert.Equal(t, key("a"), failure.Key)
			var panicked *PanicError
			assert.Equal(t, name == "panic", errors.As(failure, &panicked))
			assert.Equal(t, name != "panic", errors.Is(failure, ErrCompaction))
			assert.ErrorContains(t, failure, `compacting the events of "a" failed: `)
		})
	}
	t.Run("changing its copy, then and later", func(t *testing.T) {
		_, have := compacted(t, func(events []Event[*thing]) []Event[*thing] {
			for i := range events {
				events[i].Type, events[i].Object, events[i].Prior = Deletion, nil, nil
			}
			earlier = events
			return events
		})
		earlier[0] = Event[*thing]{}
		assert.Equal(t, []string{"+1", "1>2", "2>3", "-4(3)", "+5"}, have)
	})
}

func TestCompactorThatEndsTheGoroutineLosesNothing(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	c.CompactBy(func([]Event[*thing]) []Event[*thing] { runtime.Goexit(); return nil })
	var writer sync.WaitGroup
	writer.Go(func() { _ = c.Replace([]*thing{at("a", "u", 2), at("b", "v", 2)}, "2") })
	writer.Wait()
	assert.Equal(t, []string{"+1", "1>2"}, words(collect(take(t, c))))
	assert.Equal(t, []string{"+2"}, words(collect(take(t, c))))
}

func TestCompactorNeverForgetsWhatAHandlerMayKnow(t *testing.T) {
	c := newThings()
	c.CompactBy(func([]Event[*thing]) []Event[*thing] { return nil })
	require.NoError(t, c.Add(at("a", "u", 1)))
	q := take(t, c)
	require.NoError(t, c.Delete(at("a", "u", 2)))
	q.Fail(errors.New("no"))
	assert.Equal(t, 1, c.Stats().Events, "what was put back is compacted as well")
	require.NoError(t, c.Add(at("a", "v", 3)))
	assert.Equal(t, []string{"-2", "+3"}, words(collect(take(t, c))))
}

func TestCompactorRunsAfterTheCompaction(t *testing.T) {
	c := newThings(WithCompaction(KeepLast(2)))
	asked := 0
	c.CompactBy(func(events []Event[*thing]) []Event[*thing] {
		asked++
		assert.Len(t, events, 2)
		return events
	})
	for i := range 10 {
		require.NoError(t, c.Add(at("a", "u", i+1)))
	}
	assert.Equal(t, 9, asked)
	c.CompactBy(nil)
	require.NoError(t, c.Add(at("a", "u", 11)))
	assert.Equal(t, 9, asked)
	assert.Equal(t, []string{"+10", "10>11"}, words(collect(take(t, c))))
}

func TestCompactorIsAskedAboutAsMuchAsItCanAnswer(t *testing.T) {
	c := newThings()
	for i := range math.MaxUint16 + 2 {
		require.NoError(t, c.Add(at("a", "u", i+1)))
	}
	c.CompactBy(func(events []Event[*thing]) []Event[*thing] {
		assert.Len(t, events, math.MaxUint16)
		return nil
	})
	assert.Equal(t, []string{"+1", "1>2", "2>65537"}, words(collect(take(t, c))))
}

func TestCompactorForgetsOldIncarnationsAsEveryCompactionDoes(t *testing.T) {
	c := newThings()
	c.CompactBy(func([]Event[*thing]) []Event[*thing] { return nil })
	for i := range 20 {
		require.NoError(t, c.Add(at("a", string(rune('a'+i)), i+1)))
		q := take(t, c)
		assert.LessOrEqual(t, q.Len(), 3)
		q.PutBack()
	}
	assert.NotZero(t, c.Stats().Dropped)
}

func TestCompactorKeepsOldIncarnationsThatItWants(t *testing.T) {
	c := newThings()
	c.CompactBy(func(events []Event[*thing]) []Event[*thing] {
		return slices.DeleteFunc(events, func(e Event[*thing]) bool { return e.Type != Deletion })
	})
	const rounds = 20
	for i := range rounds {
		require.NoError(t, c.Add(at("a", string(rune('a'+i)), i+1)))
		take(t, c).PutBack()
	}
	q := take(t, c)
	assert.Equal(t, rounds, q.Len(), "all deletions, and the last addition")
	assert.Zero(t, c.Stats().Dropped)
}

func TestCompactorThatEndsTheGoroutineThatSettlesLosesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		settle func(q *Queue[*thing])
		synced bool
	}{
		"Fail":    {func(q *Queue[*thing]) { q.Fail(errNo) }, true},
		"PutBack": {func(q *Queue[*thing]) { q.PutBack() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newThings()
			require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
			q := take(t, c)
			require.NoError(t, c.Update(at("a", "u", 2)))
			nothingReady(t, c)
			c.CompactBy(func([]Event[*thing]) []Event[*thing] { runtime.Goexit(); return nil })
			var settler sync.WaitGroup
			settler.Go(func() { row.settle(q) })
			settler.Wait()
			assert.Equal(t, row.synced, isClosed(c.Synced()))
			again := take(t, c)
			assert.Equal(t, []string{"+1", "1>2"}, words(collect(again)))
			again.Done()
			assert.True(t, isClosed(c.Synced()))
			assert.Zero(t, c.Len())
		})
	}
}
