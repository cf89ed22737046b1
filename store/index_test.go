package store

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type book struct {
	author, title string
	tags          []string
}

func bookKey(b *book) (Key, error) { return Key{Namespace: b.author, Name: b.title}, nil }

func tagsOf(b *book) []string { return b.tags }

func newBooks(t *testing.T, books ...*book) (*Cache[*book], *Index[string, *book]) {
	c := New(bookKey)
	byTag, err := AddIndex(c, "tag", tagsOf)
	require.NoError(t, err)
	require.NoError(t, c.Replace(books, ""))
	return c, byTag
}

func TestIndexFindsByEachOfManyValues(t *testing.T) {
	// Every step from one set of values to another, as client-go's
	// thread_safe_store_test.go has them.
	for _, step := range [][2][]string{
		{nil, {"x"}}, {{"x"}, nil}, {{"x"}, {"y"}}, {{"x"}, {"x", "y"}}, {{"x", "y"}, {"x"}},
		{{"x", "y"}, {"y", "z"}}, {{"x", "x"}, {"x"}}, {{"x"}, {"x", "x", "y"}},
	} {
		c, byTag := newBooks(t, &book{"a", "other", []string{"x"}})
		require.NoError(t, c.Add(&book{"a", "b", step[0]}))
		require.NoError(t, c.Update(&book{"a", "b", step[1]}))
		for _, tag := range []string{"x", "y", "z"} {
			var want []string
			if slices.Contains(step[1], tag) {
				want = append(want, "a/b")
			}
			if tag == "x" {
				want = append(want, "a/other")
			}
			assert.ElementsMatch(t, want, names(byTag.Get(tag)), "%v: %s", step, tag)
		}
		require.NoError(t, c.DeleteKey(Key{Namespace: "a", Name: "b"}))
		assert.Equal(t, []string{"x"}, slices.Collect(byTag.Values()), "values of deleted objects are gone (kubernetes/kubernetes#84959)")
	}
}

func TestIndexAddedLateCoversWhatIsThere(t *testing.T) {
	c, _ := newBooks(t, &book{"a", "1", []string{"x"}}, &book{"b", "2", nil})
	assert.Len(t, names(c.All()), 2, "a snapshot that does not know the index")
	byAuthor, err := AddIndex(&c.View, "author", func(b *book) []string { return []string{b.author} })
	require.NoError(t, err)
	assert.Equal(t, []string{"a/1"}, names(byAuthor.Get("a")))
	require.NoError(t, c.Update(&book{"a", "1", nil}))
	require.NoError(t, c.Add(&book{"a", "3", nil}))
	assert.Equal(t, []string{"a/1", "a/3"}, names(byAuthor.Get("a")))
}

func TestIndexThatPanicsOnWhatIsThereIsNotAdded(t *testing.T) {
	c, _ := newBooks(t, &book{"a", "1", nil})
	_, err := AddIndex(c, "bad", func(b *book) []string { return b.tags[:1] })
	require.ErrorIs(t, err, ErrPanic)
	require.ErrorContains(t, err, `index "bad": function for "a/1"`)
	_, err = AddIndex(c, "bad", tagsOf)
	assert.NoError(t, err, "the name is still free")
}

func TestIndexOfHundredsOfValues(t *testing.T) {
	c, byTag := newBooks(t)
	tags := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, strconv.Itoa(i))
		}
		return all
	}
	for _, span := range [][2]int{{0, 500}, {250, 750}, {0, 3 * maxScratch}, {100, 101}, {0, 0}, {0, 3}} {
		require.NoError(t, c.Update(&book{"a", "1", append(tags(span[0], span[1]), tags(span[0], span[1])...)}))
		checkIndex(t, byTag)
		checkCache(t, c)
		assert.Len(t, slices.Collect(byTag.Values()), span[1]-span[0])
	}
	assert.LessOrEqual(t, cap(c.scratch.terms), maxScratch)
}

func TestIndexDoesNotWriteToWhatItsFunctionReturns(t *testing.T) {
	c := New(bookKey)
	byTag, err := AddIndex(c, "tag", tagsOf)
	require.NoError(t, err)
	room := []string{"z", "x", "z", "y", "beyond"}
	own := room[:4]
	require.NoError(t, c.Add(&book{"a", "1", own}))
	require.NoError(t, c.Update(&book{"a", "1", own}))
	require.NoError(t, c.Add(&book{"a", "2", []string{"q"}}))
	_, err = AddIndex(c, "also", tagsOf)
	require.NoError(t, err)
	assert.Equal(t, []string{"z", "x", "z", "y", "beyond"}, room)
	assert.Equal(t, []string{"a/1"}, names(byTag.Get("y")))
	checkIndex(t, byTag)
}

func TestNaNIsNotIndexed(t *testing.T) {
	nan := math.NaN()
	c := New(func(values *[3]float64) (Key, error) { return Key{Name: "a"}, nil })
	all := func(values *[3]float64) []float64 { return values[:] }
	x, err := AddIndex(c, "plain", all)
	require.NoError(t, err)
	require.NoError(t, c.Add(&[3]float64{nan, 1, nan}))
	require.NoError(t, c.Add(&[3]float64{nan, math.Copysign(0, -1), 0}))
	assert.Equal(t, []float64{0}, slices.Collect(x.Values()), "the two zeros are one")
	assert.Empty(t, names(x.Get(nan)))
	assert.Equal(t, []string{"a"}, names(x.From(-1)))
	late, err := AddIndex(c, "late", all)
	require.NoError(t, err)
	assert.Equal(t, []float64{0}, slices.Collect(late.Values()))
	checkIndex(t, x)
}

func TestIndexOverAnInterfaceTakesAnyComparableValue(t *testing.T) {
	c := New(func(values *[]any) (Key, error) { return Key{Name: (*values)[0].(string)}, nil })
	byText := func(a, b any) int { return strings.Compare(fmt.Sprintf("%T %v", a, a), fmt.Sprintf("%T %v", b, b)) }
	x, err := AddIndexFunc(c, "any", func(values *[]any) []any { return (*values)[1:] }, byText)
	require.NoError(t, err)
	require.NoError(t, c.Add(&[]any{"a", nil, 1, "1"}))
	require.NoError(t, c.Add(&[]any{"b", 2, nil}))
	assert.Equal(t, []string{"a", "b"}, names(x.Get(nil)))
	assert.Equal(t, []string{"a"}, names(x.Get("1")))
	assert.Equal(t, []any{nil, 1, 2, "1"}, slices.Collect(x.Values()))

	require.ErrorIs(t, c.Update(&[]any{"a", 5, []int{}}), ErrPanic, "a slice cannot be compared")
	assert.Equal(t, []string{"a", "b"}, names(x.Get(nil)))
	require.NoError(t, c.Update(&[]any{"a", 3}))
	require.NoError(t, c.Update(&[]any{"b", 4}))
	assert.Empty(t, names(x.Get(nil)))
	checkIndex(t, x)
}

func TestCompareFunctionThatFailsRejectsTheObject(t *testing.T) {
	for name, compare := range map[string]func(a, b *int) int{
		"panics":  func(a, b *int) int { return *a - *b },
		"differs": func(a, b *int) int { return 1 },
	} {
		c := New(func(values *[]*int) (Key, error) { return Key{Name: "a"}, nil })
		x, err := AddIndexFunc(c, "pointer", func(values *[]*int) []*int { return *values }, compare)
		require.NoError(t, err)
		assert.ErrorContains(t, c.Add(&[]*int{nil}), `index "pointer": function for "a"`, name)
		assert.Zero(t, c.Len(), name)
		checkIndex(t, x)
		checkCache(t, c)
	}
}

func TestIndexOnASnapshotReadsThatState(t *testing.T) {
	c, byTag := newBooks(t, &book{"b", "1", []string{"x"}}, &book{"a", "2", []string{"y", "x", "y"}}, &book{"a", "1", nil})
	x := byTag.On(c.Snapshot())
	require.NoError(t, c.Replace(nil, ""))
	assert.Empty(t, names(byTag.Get("x")))
	assert.Equal(t, []string{"a/2", "b/1"}, names(x.Get("x")))
	assert.Equal(t, []string{"a/2", "b/1", "a/2"}, names(x.All()))
	assert.Equal(t, []string{"a/2", "b/1", "a/2"}, names(x.From("")))
	assert.Equal(t, []string{"a/2", "b/1", "a/2"}, names(x.Backward()))
	assert.Equal(t, []string{"a/2"}, names(x.From("y")))
	assert.Equal(t, []string{"a/2", "b/1"}, names(x.Range("a", "y")))
	assert.Equal(t, []string{"x", "y"}, slices.Collect(x.Values()))
}

func TestIndexPanicsOnASnapshotWithoutIt(t *testing.T) {
	c := New(bookKey)
	old := c.Snapshot()
	byTag, err := AddIndex(c, "tag", tagsOf)
	require.NoError(t, err)
	other, _ := newBooks(t)
	for _, s := range []*Snapshot[*book]{old, other.Snapshot()} {
		assert.PanicsWithValue(t, `store: index "tag": the snapshot is older than the index, or from another cache`, func() { byTag.On(s) })
	}
	assert.NotPanics(t, func() { byTag.On(c.Snapshot()) })
}

func TestPanicOfAnIndexFunctionLeavesNothingHalfMade(t *testing.T) {
	for name, write := range map[string]func(*Cache[*book], *book) error{
		"Update":  func(c *Cache[*book], b *book) error { return c.Update(b) },
		"Replace": func(c *Cache[*book], b *book) error { return c.Replace([]*book{b, {"a", "2", []string{"y"}}}, "2") },
		"Batch": func(c *Cache[*book], b *book) error {
			var batch writes[*book]
			batch.Update(&book{"a", "2", []string{"y"}})
			batch.Update(b)
			return batch.to(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The one in the middle panics when it has found some values.
			c, first := newBooks(t)
			middle, err := AddIndex(c, "middle", func(b *book) (values []int) {
				for _, tag := range b.tags {
					n, err := strconv.Atoi(tag)
					if err == nil && n < 0 {
						panic("negative")
					}
					values = append(values, len(tag))
				}
				return values
			})
			require.NoError(t, err)
			last, err := AddIndex(c, "last", func(b *book) []int { return []int{len(b.tags)} })
			require.NoError(t, err)
			require.NoError(t, c.Replace([]*book{{"a", "1", []string{"x"}}}, "1"))

			err = write(c, &book{"a", "1", []string{"new", "also", "-1"}})

			require.ErrorIs(t, err, ErrPanic)
			require.ErrorContains(t, err, `index "middle": function for "a/1"`)
			assert.Equal(t, []string{"a/1"}, names(first.Get("x")))
			assert.Empty(t, names(first.Get("new")))
			checkCache(t, c)
			checkIndex(t, first)
			checkIndex(t, middle)
			checkIndex(t, last)
		})
	}
}

func TestIndexThatIsNotAddedIsNil(t *testing.T) {
	c, _ := newBooks(t, &book{"a", "1", nil})
	x, err := AddIndex(c, "tag", tagsOf)
	assert.ErrorContains(t, err, `index "tag": the cache has an index of this name`)
	assert.Nil(t, x)
	assert.Panics(t, func() { _, _ = AddIndex[*book, string](c, "nothing", nil) })
	assert.Panics(t, func() { _, _ = AddIndexFunc(c, "nothing", tagsOf, nil) })
	assert.Len(t, c.indexes, 1)
}

// These tests hold store-S2.

func newRanked(t *testing.T) (*Cache[*book], *Index[int, *book]) {
	c := New(bookKey)
	byRank, err := AddIndex(c, "rank", func(b *book) (ranks []int) {
		for _, tag := range b.tags {
			rank, _ := strconv.Atoi(tag)
			ranks = append(ranks, rank)
		}
		return ranks
	})
	require.NoError(t, err)
	for _, b := range []*book{{"b", "1", []string{"5"}}, {"a", "2", []string{"5", "-1"}}, {"a", "1", []string{"10"}}, {"c", "0", nil}, {"a", "3", []string{"5"}}} {
		require.NoError(t, c.Add(b))
	}
	return c, byRank
}

func TestIndexReadsInTheOrderOfValuesThenKeys(t *testing.T) {
	_, byRank := newRanked(t)
	for name, tt := range map[string]struct {
		seq  func(func(Key, *book) bool)
		want []string
	}{
		"all":                {byRank.All(), []string{"a/2", "a/2", "a/3", "b/1", "a/1"}},
		"backward":           {byRank.Backward(), []string{"a/1", "b/1", "a/3", "a/2", "a/2"}},
		"get":                {byRank.Get(5), []string{"a/2", "a/3", "b/1"}},
		"get nothing":        {byRank.Get(6), []string{}},
		"from a value":       {byRank.From(5), []string{"a/2", "a/3", "b/1", "a/1"}},
		"from between":       {byRank.From(6), []string{"a/1"}},
		"from beyond":        {byRank.From(11), []string{}},
		"range":              {byRank.Range(-1, 5), []string{"a/2"}},
		"range to the last":  {byRank.Range(5, 10), []string{"a/2", "a/3", "b/1"}},
		"range of one":       {byRank.Range(5, 6), []string{"a/2", "a/3", "b/1"}},
		"range of nothing":   {byRank.Range(5, 5), []string{}},
		"range upside down":  {byRank.Range(10, -1), []string{}},
		"range between":      {byRank.Range(0, 4), []string{}},
		"range over the end": {byRank.Range(6, 100), []string{"a/1"}},
	} {
		assert.Equal(t, tt.want, names(tt.seq), name)
		assert.Equal(t, min(1, len(tt.want)), untilBreak(tt.seq), name)
	}
	assert.Equal(t, []int{-1, 5, 10}, slices.Collect(byRank.Values()))
	for value := range byRank.Values() {
		assert.Equal(t, -1, value)
		break
	}
}

func TestOrderOfAnIndexFollowsChanges(t *testing.T) {
	c, byRank := newRanked(t)
	pinned := byRank.On(c.Snapshot())
	require.NoError(t, c.Update(&book{"a", "2", []string{"20", "5"}}))
	require.NoError(t, c.DeleteKey(Key{Namespace: "a", Name: "1"}))
	assert.Equal(t, []string{"a/2", "a/3", "b/1", "a/2"}, names(byRank.All()))
	assert.Equal(t, []int{5, 20}, slices.Collect(byRank.Values()))
	assert.Equal(t, []int{-1, 5, 10}, slices.Collect(pinned.Values()))
	assert.Equal(t, "rank", byRank.indexer.name)
	checkIndex(t, byRank)
}
