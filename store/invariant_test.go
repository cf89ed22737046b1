package store

import (
	"slices"

	"github.com/stretchr/testify/require"
)

// checkCache walks everything that a cache holds between two commits and fails
// if two parts of it say different things.
func checkCache[T any](t require.TestingT, c *Cache[T]) {
	c.writer.Lock()
	defer c.writer.Unlock()
	c.mu.RLock()
	defer c.mu.RUnlock()

	shelved := 0
	count := func(of space, s *nsMap[T]) {
		require.NotEmpty(t, s.objects, "an empty namespace is not kept")
		require.Equal(t, of, *s.space)
		require.False(t, s.gone)
		for name, held := range s.objects {
			e := entryOf[T](c.entries.get(&header{space: s.space, name: name}, nil))
			require.NotNil(t, e)
			require.Same(t, s.space, e.space)
			require.Equal(t, held.object, e.object)
			require.Same(t, held.entry, e)
		}
		shelved += len(s.objects)
	}
	for namespace, s := range c.table.home {
		count(space{"", namespace}, s)
	}
	for of, s := range c.table.clusters {
		count(of, s)
	}
	require.Equal(t, c.table.len, shelved)
	require.Equal(t, c.table.len, c.entries.len())

	var last *entry[T]
	c.entries.scan(func(h *header) bool {
		e := entryOf[T](h)
		require.True(t, last == nil || last.key().Compare(e.key()) < 0, "in order")
		require.LessOrEqual(t, e.epoch, c.epoch)
		require.True(t, slices.IsSortedFunc(e.terms(), func(a, b *term) int {
			if a.index != b.index {
				return int(a.index - b.index)
			}
			return int(a.seq) - int(b.seq)
		}), "terms of %v: %v", e.key(), e.terms())
		for _, found := range e.terms() {
			require.Zero(t, found.next, "only load uses it")
		}
		last = e
		return true
	})

	for i, x := range c.indexes {
		require.EqualValues(t, i, x.position)
	}
	require.Nil(t, c.frozen)
	for _, free := range c.scratch.entries {
		require.Zero(t, *free, "a free entry refers to nothing")
	}
	for _, taken := range c.scratch.entries[len(c.scratch.entries):cap(c.scratch.entries)] {
		require.Nil(t, taken, "an entry in use is not kept in memory after its deletion")
	}
	for _, left := range c.scratch.mutations[:cap(c.scratch.mutations)] {
		require.Zero(t, left, "memory for the next commit refers to nothing")
	}
	for _, left := range c.scratch.commit.Changes[:cap(c.scratch.commit.Changes)] {
		require.Zero(t, left.Key)
	}
}

// checkIndex holds an index to what its function says about each object.
func checkIndex[I comparable, T any](t require.TestingT, r *Index[I, T]) {
	c := r.of
	c.writer.Lock()
	defer c.writer.Unlock()
	c.mu.RLock()
	defer c.mu.RUnlock()

	uses := map[*term]int{}
	postings := 0
	c.entries.scan(func(h *header) bool {
		e := entryOf[T](h)
		var values []I
		for _, term := range e.section(r.indexer.position) {
			uses[term]++
			postings++
			values = append(values, valueOf[I](term))
			found, ok := postingsOf(r.indexer.tree).Get(posting{term, h})
			require.True(t, ok, "no posting of %v for %v", term.value, e.key())
			require.Same(t, h, found.entry)
			require.Same(t, term, found.term)
			require.Same(t, r.indexer.known[valueOf[I](term)], term)
		}
		require.ElementsMatch(t, distinct(r.indexer.values(e.object)), values, "values of %v", e.key())
		return true
	})
	require.Equal(t, postings, postingsOf(r.indexer.tree).Len(), "the tree has what the entries have, and no more")
	require.Len(t, r.indexer.known, len(uses), "a value that nothing has is forgotten")
	for term, n := range uses {
		require.Equal(t, n, term.uses, "uses of %v", term.value)
	}
}

// distinct returns the values that are equal to themselves, each once.
func distinct[I comparable](values []I) (all []I) {
	for _, value := range values {
		if value == value && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

// checkQuiet fails if the cache still has a waiter or a watch.
func checkQuiet[T any](t require.TestingT, c *Cache[T]) {
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	require.Empty(t, c.watches.all)
}
