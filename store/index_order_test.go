package store

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
