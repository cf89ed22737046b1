package store

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Indexable is a type that takes an index: a [Cache], or a [View] of one.
type Indexable[T any] interface {
	cache() *Cache[T]
}

// Index finds the objects of a cache by values that a function derives from them, such as the node
// of a pod. It returns objects in the order of those values, and objects with the same value in the
// order of their keys. An object may have any number of values; it comes once for each. The index
// ignores a value that is not equal to itself, a NaN.
//
// Create one with [AddIndex] or [AddIndexFunc]. All methods are safe for concurrent use. They read
// the state that is current when an iteration begins, or the snapshot that was passed to
// [Index.On]. An iteration allocates nothing for an object and holds no lock. The first read after
// a commit makes a snapshot.
type Index[I comparable, T any] struct {
	of      *Cache[T]
	at      *Snapshot[T] // nil for the current state
	indexer *indexer[I, T]
}

// AddIndex adds an index to a cache, at any time. It indexes the objects that the cache holds
// before it returns. The function returns the values of an object, in any order, or none. It must
// be pure: the same object always has the same values. An index lives as long as its cache.
// AddIndex panics without a function.
//
// AddIndex returns an error, and adds nothing, if the name is taken or the function panics for an
// object that the cache holds ([ErrPanic]). If it panics later, the cache rejects the object: see
// [RejectedError].
func AddIndex[T any, I cmp.Ordered](to Indexable[T], name string, values func(T) []I) (*Index[I, T], error) {
	return AddIndexFunc(to, name, values, cmp.Compare[I])
}

// AddIndexFunc is [AddIndex] for values of any comparable type. The compare function orders them
// as [cmp.Compare] does, and returns 0 for equal values only. It must be pure and must not panic.
func AddIndexFunc[T any, I comparable](to Indexable[T], name string, values func(T) []I, compare func(a, b I) int) (*Index[I, T], error) {
	if values == nil || compare == nil {
		panic(fmt.Sprintf("store: index %q: AddIndex needs a function", name))
	}
	c := to.cache()
	c.writer.Lock()
	defer c.writer.Unlock()
	if slices.ContainsFunc(c.indexes, func(x *postings[T]) bool { return x.name == name }) {
		return nil, fmt.Errorf("index %q: the cache has an index of this name: choose another name", name)
	}
	v := &indexer[I, T]{values: values, compare: compare, known: make(map[I]*term)}
	v.postings = postings[T]{name, int32(len(c.indexes)), newPostingTree(v.less), v}
	if err := c.fill(&v.postings); err != nil {
		return nil, err
	}
	c.trees.Lock()
	c.mu.Lock()
	c.current.Store(nil)
	c.indexes = append(c.indexes, &v.postings)
	c.mu.Unlock()
	c.trees.Unlock()
	return &Index[I, T]{of: c, indexer: v}, nil
}

// fill indexes the objects that the cache holds. The caller holds writer.
func (c *Cache[T]) fill(x *postings[T]) (err error) {
	type found struct {
		entry *entry[T]
		terms []*term
	}
	all := make([]found, 0, c.table.len)
	c.entries.scan(func(h *header) bool {
		e := entryOf[T](h)
		var terms []*term
		if terms, err = x.indexer.derive(nil, nil, e.key(), e.object); err != nil {
			return false
		}
		all = append(all, found{e, terms})
		return true
	})
	if err != nil {
		return err // and nothing refers to the index
	}
	for _, f := range all {
		f.entry.setTerms(slices.Concat(f.entry.terms(), f.terms))
		x.move(nil, f.entry, false)
	}
	return nil
}

// On returns the index as of a snapshot. It panics if the snapshot is older than the index, or from
// another cache.
func (x *Index[I, T]) On(snapshot *Snapshot[T]) *Index[I, T] {
	if snapshot.of != x.of || len(snapshot.indexes) <= int(x.indexer.position) {
		panic(fmt.Sprintf("store: index %q: the snapshot is older than the index, or from another cache", x.indexer.name))
	}
	pinned := *x
	pinned.at = snapshot
	return &pinned
}

// Get iterates over the objects that have a value, in the order of their keys.
func (x *Index[I, T]) Get(value I) iter.Seq2[Key, T] {
	return x.ascend(value, func(found I) bool { return found == value })
}

// Range iterates over the objects that have a value in the half-open interval [from, to), in the
// order of the values.
func (x *Index[I, T]) Range(from, to I) iter.Seq2[Key, T] {
	return x.ascend(from, func(value I) bool { return x.indexer.compare(value, to) < 0 })
}

// From iterates over the objects that have a value of from or greater, in the order of the values.
func (x *Index[I, T]) From(from I) iter.Seq2[Key, T] {
	return x.ascend(from, func(I) bool { return true })
}

// All iterates over all objects that have a value, in the order of the values.
func (x *Index[I, T]) All() iter.Seq2[Key, T] { return x.read(postingTree.scan) }

// Backward iterates over all objects that have a value, in descending order of the values. Objects
// with the same value come in descending order of their keys.
func (x *Index[I, T]) Backward() iter.Seq2[Key, T] { return x.read(postingTree.reverse) }

// Values iterates over the distinct values of all objects, in order.
func (x *Index[I, T]) Values() iter.Seq[I] {
	return func(yield func(I) bool) {
		var last *term
		x.tree().scan(func(p posting) bool {
			if p.term == last {
				return true
			}
			last = p.term
			return yield(valueOf[I](p.term))
		})
	}
}

// ascend iterates from a value on, while within returns true.
func (x *Index[I, T]) ascend(from I, within func(I) bool) iter.Seq2[Key, T] {
	return x.read(func(tree postingTree, visit func(posting) bool) {
		var last *term
		tree.ascend(posting{term: &term{value: from}}, func(p posting) bool {
			if p.term != last && !within(valueOf[I](p.term)) {
				return false
			}
			last = p.term
			return visit(p)
		})
	})
}

// read iterates over the entries of the postings that walk visits.
func (x *Index[I, T]) read(walk func(tree postingTree, visit func(posting) bool)) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		next := make([]*header, 0, 16) // passed together: see yieldAll
		walk(x.tree(), func(p posting) bool {
			if next = append(next, p.entry); len(next) < cap(next) {
				return true
			}
			more := yieldAll(next, yield)
			next = next[:0]
			return more
		})
		yieldAll(next, yield)
	}
}

// tree returns the tree of the state to read.
func (x *Index[I, T]) tree() postingTree {
	s := x.at
	if s == nil {
		s = x.of.Snapshot()
	}
	return s.indexes[x.indexer.position]
}
