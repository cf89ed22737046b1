package store

import (
	"cmp"
	"slices"
)

// term is a value that an index found, once for all the objects that have it.
// Everything but uses and next is written once.
type term struct {
	// index is the position of the index that it belongs to.
	index int32
	// next is the place of the term's next posting while load runs. Guarded by Cache.writer.
	next int32
	// seq is greater than that of every earlier term of the index.
	seq uint64
	// value is an I of the index. It is an any because an entry holds the terms
	// of all indexes, each of which has an I of its own.
	value any
	// uses counts the entries that have the term. Guarded by Cache.writer.
	uses int
	// many is what a termSet has that is too large for itself; nil of all others.
	many []*term
}

// posting says that an object has a value.
type posting struct {
	term  *term
	entry *header // nil only in searches: before all others of its term
}

// lessEntryOf orders the postings of one value.
func lessEntryOf(a, b posting) bool {
	if a.entry == nil || b.entry == nil {
		return a.entry == nil && b.entry != nil
	}
	return lessEntry(a.entry, b.entry)
}

// postings is an index as its cache sees it, which does not know the type of
// its values.
type postings[T any] struct {
	name string
	// position is the index's place in Cache.indexes and Snapshot.indexes.
	position int32

	// tree has one element for each value of each object. Guarded by
	// Cache.trees as Cache.entries is.
	tree postingTree

	// terms runs the user's function and appends the terms of its values, which
	// it acquires; release gives one back. They are called under Cache.writer. held has
	// the terms of the object that is held under the key, which most updates leave as they are.
	terms   func(into, held []*term, key Key, object T) ([]*term, error)
	release func(*term)
	// compare orders terms by value.
	compare func(a, b *term) int
}

// move makes the postings of one entry those of another under the same key;
// either may be nil. If kept is true, the postings have the new one already. The
// caller holds writer, and may edit the tree.
func (x *postings[T]) move(old, new *entry[T], kept bool) {
	from, to := old.section(x.position), new.section(x.position)
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].seq < to[0].seq:
			x.tree.remove(posting{from[0], &old.header})
			from = from[1:]
		case len(from) > 0 && from[0] == to[0]:
			if !kept {
				x.tree.put(posting{to[0], &new.header})
			}
			from, to = from[1:], to[1:]
		default:
			x.tree.put(posting{to[0], &new.header})
			to = to[1:]
		}
	}
}

// load makes the postings of entries that come in the order of keys, in an empty tree: those of each
// term are in order already.
func (x *postings[T]) load(mutations []mutation[T]) {
	var terms []*term
	for i := range mutations {
		for _, t := range mutations[i].new.section(x.position) {
			if t.next == 0 {
				terms = append(terms, t)
			}
			t.next++
		}
	}
	defer func() { // also if compare panics
		for _, t := range terms {
			t.next = 0
		}
	}()
	sortTermsBy(terms, x.compare)
	n := int32(0)
	for _, t := range terms {
		n, t.next = n+t.next, n
	}
	all := make([]posting, n)
	for i := range mutations {
		for _, t := range mutations[i].new.section(x.position) {
			all[t.next] = posting{t, &mutations[i].new.header}
			t.next++
		}
	}
	for _, p := range all {
		x.tree.load(p)
	}
}

// arrange orders the terms of one object, and drops those that it has twice.
func (x *postings[T]) arrange(terms []*term) []*term {
	if len(terms) < 2 {
		return terms
	}
	sortTerms(terms)
	kept := terms[:1]
	for _, t := range terms[1:] {
		if t == kept[len(kept)-1] {
			x.release(t)
			continue
		}
		kept = append(kept, t)
	}
	return kept
}

// sortTerms orders terms of one index. It is not inlined where somebody has a cache, since it would
// be compiled there once more.
//
//go:noinline
func sortTerms(terms []*term) {
	slices.SortFunc(terms, func(a, b *term) int { return cmp.Compare(a.seq, b.seq) })
}

//go:noinline
func sortTermsBy(terms []*term, compare func(a, b *term) int) { slices.SortFunc(terms, compare) }

// release gives back the terms of an entry that is not held any more, or never
// was. The caller holds writer.
func (c *Cache[T]) release(terms []*term) {
	for _, t := range terms {
		c.indexes[t.index].release(t)
	}
}

// termSet has the terms that the indexes found in one object, ordered by index and then by term.
// Two lie in the set itself, because caches with two indexes are common. More lie in a term of
// their own, the second of the set.
type termSet struct{ few [2]*term }

// terms returns what the set has. Writing to the slice writes to the set.
func (s *termSet) terms() []*term {
	switch {
	case s.few[0] == nil && s.few[1] == nil:
		return nil
	case s.few[0] == nil:
		return s.few[1].many
	case s.few[1] == nil:
		return s.few[:1]
	}
	return s.few[:]
}

// setTerms makes the set a copy of the given terms.
func (s *termSet) setTerms(terms []*term) {
	s.few = [len(s.few)]*term{}
	if len(terms) > len(s.few) {
		s.few[1] = &term{many: slices.Clone(terms)}
		return
	}
	copy(s.few[:], terms)
}

// section returns the terms of the index of a position.
func (s *termSet) section(position int32) []*term {
	terms := s.terms()
	from := 0
	for from < len(terms) && terms[from].index < position {
		from++
	}
	to := from
	for to < len(terms) && terms[to].index == position {
		to++
	}
	return terms[from:to]
}
