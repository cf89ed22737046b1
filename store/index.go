package store

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Indexable is what an index can be added to: a [Cache] or a [View] of one.
type Indexable[T any] interface {
	cache() *Cache[T]
}

// Index finds the objects of a cache by values that a function derives from them, such as the
// node of a pod, and reads them in the order of those values. An object may have any number of
// values; it comes once for each. Objects with the same value come in the order of their keys.
// A value that is not equal to itself, a NaN, is not indexed.
//
// Create one with [AddIndex] or [AddIndexFunc]. All methods are safe for concurrent use. They
// read the state that is current when an iteration begins, or the one that was given to
// [Index.On]. Iterating allocates nothing for an object and holds no lock. The first read after
// a commit makes a snapshot.
type Index[I comparable, T any] struct {
	of         *Cache[T]
	at         *Snapshot[T] // nil for the current one
	postings   *postings[T]
	vocabulary *vocabulary[I, T]
}

// AddIndex adds an index to a cache, at any time: the objects that the cache holds are indexed
// before AddIndex returns. The function returns the values of an object, in any order, or none.
// It must be pure: the same object always has the same values. An index lives as long as its
// cache. AddIndex panics without a function.
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
	v := &vocabulary[I, T]{name: name, values: values, compare: compare, terms: make(map[I]*term)}
	c := to.cache()
	c.writer.Lock()
	defer c.writer.Unlock()
	if slices.ContainsFunc(c.indexes, func(x *postings[T]) bool { return x.name == name }) {
		return nil, fmt.Errorf("index %q: the cache has an index of this name: choose another name", name)
	}
	v.position = int32(len(c.indexes))
	x := &postings[T]{
		name:     name,
		position: v.position,
		tree:     newPostingTree(v.less),
		terms:    v.find,
		release:  v.release,
		compare:  v.order,
	}
	if err := c.fill(x); err != nil {
		return nil, err
	}
	c.trees.Lock()
	c.mu.Lock()
	c.published.Store(nil)
	c.indexes = append(c.indexes, x)
	c.mu.Unlock()
	c.trees.Unlock()
	return &Index[I, T]{of: c, postings: x, vocabulary: v}, nil
}

// fill indexes what the cache holds. The caller holds writer.
func (c *Cache[T]) fill(x *postings[T]) (err error) {
	type found struct {
		entry *entry[T]
		terms []*term
	}
	all := make([]found, 0, c.table.len)
	c.entries.scan(func(h *header) bool {
		e := entryOf[T](h)
		var terms []*term
		if terms, err = x.terms(nil, nil, e.key(), e.object); err != nil {
			return false
		}
		all = append(all, found{e, x.arrange(terms)})
		return true
	})
	if err != nil {
		return err // and the vocabulary is forgotten with the index
	}
	for _, f := range all {
		f.entry.setTerms(slices.Concat(f.entry.terms(), f.terms))
		x.move(nil, f.entry, false)
	}
	return nil
}

// On returns the index as it is in a snapshot. In one that is older than the index, or from
// another cache, each read indexes all objects first.
func (x *Index[I, T]) On(snapshot *Snapshot[T]) *Index[I, T] {
	pinned := *x
	pinned.at = snapshot
	return &pinned
}

// Get iterates over the objects that have a value, in the order of their keys.
func (x *Index[I, T]) Get(value I) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		next := bundle[T]{yield: yield}
		var found *term
		x.tree().ascend(posting{term: &term{value: value}}, func(p posting) bool {
			if p.term != found {
				if found != nil || valueOf[I](p.term) != value {
					return false
				}
				found = p.term
			}
			return next.add(entryOf[T](p.entry))
		})
		next.flush()
	}
}

// Range iterates over the objects whose values are from or greater, and less than to, in the
// order of the values.
func (x *Index[I, T]) Range(from, to I) iter.Seq2[Key, T] {
	return x.ascend(from, func(value I) bool { return x.vocabulary.compare(value, to) < 0 })
}

// From iterates over the objects whose values are from or greater, in the order of the values.
func (x *Index[I, T]) From(from I) iter.Seq2[Key, T] {
	return x.ascend(from, func(I) bool { return true })
}

// All iterates over all objects that have a value, in the order of the values.
func (x *Index[I, T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		x.tree().scan(func(p posting) bool { return yield(p.entry.key(), entryOf[T](p.entry).object) })
	}
}

// Backward iterates over all objects that have a value: the greatest value first, and the
// greatest key of a value first.
func (x *Index[I, T]) Backward() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		x.tree().reverse(func(p posting) bool { return yield(p.entry.key(), entryOf[T](p.entry).object) })
	}
}

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

// ascend iterates from a value on, while within is true.
func (x *Index[I, T]) ascend(from I, within func(I) bool) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		var last *term
		x.tree().ascend(posting{term: &term{value: from}}, func(p posting) bool {
			if p.term != last {
				if !within(valueOf[I](p.term)) {
					return false
				}
				last = p.term
			}
			return yield(p.entry.key(), entryOf[T](p.entry).object)
		})
	}
}

// tree returns the index in the state to read from.
func (x *Index[I, T]) tree() postingTree {
	s := x.at
	if s == nil {
		s = x.of.Snapshot()
	}
	if s.of == x.of && int(x.postings.position) < len(s.indexes) {
		return s.indexes[x.postings.position]
	}
	tree := newPostingTree(x.vocabulary.less)
	terms := make(map[I]*term)
	s.entries.scan(func(h *header) bool {
		for _, value := range x.vocabulary.of(entryOf[T](h).object) {
			if terms[value] == nil {
				terms[value] = &term{value: value}
			}
			tree.put(posting{terms[value], h})
		}
		return true
	})
	return tree
}
