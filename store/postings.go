package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/kubereflector/kubereflector/internal/panicked"
)

// term is a value that an index found. All objects with the value share the term. Only uses and
// next change.
type term struct {
	// index is the position of the index.
	index int32
	// next is the position of the term's next posting while load runs. Guarded by Cache.writer.
	next int32
	// seq is greater than the seq of every earlier term of the index.
	seq uint64
	// value is an I of the index. It is an any because an entry holds terms of all indexes, and
	// each index has its own I.
	value any
	// uses counts the entries that have the term. Guarded by Cache.writer.
	uses int
	// many holds the terms of a termSet with more than two terms; nil otherwise.
	many []*term
}

// posting says that an object has a value.
type posting struct {
	term  *term
	entry *header // nil only in searches: before all other postings of the term
}

// postings is an index without the type of its values. The cache works with this part.
type postings[T any] struct {
	name string
	// position is the index's place in Cache.indexes and Snapshot.indexes.
	position int32

	// tree has one posting for each value of each object. Guarded by Cache.trees, like
	// Cache.entries.
	tree postingTree

	// indexer is the index with the type of its values.
	indexer interface {
		// derive runs the user's function, and appends a reference to the term of each value, in the
		// order of seq. held has the terms of the current object under the key, because most updates
		// do not change them.
		derive(into, held []*term, key Key, object T) ([]*term, error)
		// release releases one reference.
		release(*term)
		// order orders terms by value.
		order(a, b *term) int
	}
}

// move replaces the postings of one entry by the postings of another under the same key; either may
// be nil. If they were swapped, the postings of an unchanged term already point to the new entry:
// see changeTrees. The caller holds writer, and may change the tree.
func (x *postings[T]) move(old, new *entry[T], swapped bool) {
	from, to := old.section(x.position), new.section(x.position)
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].seq < to[0].seq:
			x.tree.remove(posting{from[0], &old.header})
			from = from[1:]
		case len(from) > 0 && from[0] == to[0]:
			if !swapped {
				x.tree.put(posting{to[0], &new.header})
			}
			from, to = from[1:], to[1:]
		default:
			x.tree.put(posting{to[0], &new.header})
			to = to[1:]
		}
	}
}

// load fills an empty tree with the postings of entries. The entries come in the order of keys, so
// the postings of each term are in order already.
func (x *postings[T]) load(mutations []mutation[T]) {
	var terms []*term
	for i := range mutations {
		for _, t := range mutations[i].after.section(x.position) {
			if t.next == 0 {
				terms = append(terms, t)
			}
			t.next++
		}
	}
	sortTerms(terms, x.indexer.order)
	n := int32(0)
	for _, t := range terms {
		n, t.next = n+t.next, n
	}
	all := make([]posting, n)
	for i := range mutations {
		for _, t := range mutations[i].after.section(x.position) {
			all[t.next] = posting{t, &mutations[i].after.header}
			t.next++
		}
	}
	for _, p := range all {
		p.term.next = 0
		x.tree.load(p)
	}
}

// sortTerms sorts terms of one index. It is not inlined, so that packages with a cache do not
// compile the sort again.
//
//go:noinline
func sortTerms(terms []*term, compare func(a, b *term) int) { slices.SortFunc(terms, compare) }

// release releases the terms of an entry that the cache no longer holds or never stored. The caller
// holds writer.
func (c *Cache[T]) release(terms []*term) {
	for _, t := range terms {
		c.indexes[t.index].indexer.release(t)
	}
}

// termSet holds the terms that the indexes found in one object, ordered by index and then by term.
// The set itself has room for two, because caches with two indexes are common. With more, the
// second element is a term that holds all of them.
type termSet struct{ few [2]*term }

// terms returns the terms of the set. Writing to the slice writes to the set.
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

// setTerms copies the given terms to the set.
func (s *termSet) setTerms(terms []*term) {
	s.few = [len(s.few)]*term{}
	if len(terms) > len(s.few) {
		s.few[1] = &term{many: slices.Clone(terms)}
		return
	}
	copy(s.few[:], terms)
}

// indexer is the part of an index that knows the type of its values. Guarded by Cache.writer, except
// for the functions.
type indexer[I comparable, T any] struct {
	postings[T]
	values  func(T) []I
	compare func(a, b I) int

	known map[I]*term // the terms of all values
	seq   uint64
}

// errCompare means that a compare function reports that a value differs from itself.
var errCompare = errors.New("the compare function says that a value differs from itself")

// less orders postings by value, then by key.
func (v *indexer[I, T]) less(a, b posting) bool {
	if a.term != b.term {
		if c := v.order(a.term, b.term); c != 0 {
			return c < 0
		}
	}
	if a.entry == nil || b.entry == nil {
		return a.entry == nil && b.entry != nil
	}
	return lessEntry(a.entry, b.entry)
}

// order orders terms by value.
func (v *indexer[I, T]) order(a, b *term) int {
	return v.compare(valueOf[I](a), valueOf[I](b))
}

// derive runs the user's function and appends the terms of its values to into. After a panic it
// releases the terms.
//
// It compares each value with the terms of held first, because that is quicker than a map lookup.
func (v *indexer[I, T]) derive(into, held []*term, key Key, object T) (found []*term, err error) {
	found = into
	done := false
	defer func() {
		if done {
			return
		}
		for _, t := range found[len(into):] {
			v.release(t)
		}
		if value := recover(); value != nil {
			err = panicked.Error(value)
		}
		found, err = into, fmt.Errorf("index %q: function for %.253q: %w", v.name, key, err)
	}()
	for i, value := range v.values(object) {
		if value != value {
			continue // a NaN: no search finds it
		}
		if i < len(held) && valueOf[I](held[i]) == value {
			held[i].uses++
			found = append(found, held[i])
			continue
		}
		var t *term
		if t, err = v.acquire(value); err != nil {
			return found, err
		}
		found = append(found, t)
	}
	done = true
	return found[:len(into)+len(v.distinct(found[len(into):]))], nil
}

// distinct sorts the terms of one object, and drops duplicates.
func (v *indexer[I, T]) distinct(terms []*term) []*term {
	if len(terms) < 2 {
		return terms
	}
	sortTerms(terms, func(a, b *term) int { return cmp.Compare(a.seq, b.seq) })
	kept := terms[:1]
	for _, t := range terms[1:] {
		if t == kept[len(kept)-1] {
			v.release(t)
			continue
		}
		kept = append(kept, t)
	}
	return kept
}

func (v *indexer[I, T]) acquire(value I) (*term, error) {
	if t := v.known[value]; t != nil {
		t.uses++
		return t, nil
	}
	// The first call of compare for a value is here, where a panic rejects one object only.
	if v.compare(value, value) != 0 {
		return nil, errCompare
	}
	v.seq++
	t := &term{index: v.position, value: value, uses: 1, seq: v.seq}
	v.known[value] = t
	return t, nil
}

func (v *indexer[I, T]) release(t *term) {
	if t.uses--; t.uses == 0 {
		delete(v.known, valueOf[I](t))
	}
}

// valueOf returns the value of a term. If I is an interface type, a nil I is stored as a nil any. A
// type assertion without ok would panic on it.
func valueOf[I comparable](t *term) I {
	value, _ := t.value.(I)
	return value
}
