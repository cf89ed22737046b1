package store

import (
	"cmp"
	"iter"
	"slices"
)

// OrderedIndex is an [Index] whose values have an order, such as a time of
// creation or a priority: it can also be read in that order, and by ranges.
// Objects with the same value come in the order of their keys; one with several
// values comes once for each.
//
// Create one with [AddOrderedIndex]. All methods are safe for concurrent use:
// see [Index].
type OrderedIndex[I cmp.Ordered, T any] struct{ reader[I, T] }

// AddOrderedIndex is [AddIndex] for values that have an order.
func AddOrderedIndex[T any, I cmp.Ordered](to Indexable[T], name string, fn func(T) []I) (*OrderedIndex[I, T], error) {
	if fn == nil {
		return nil, &IndexError{Index: name, Err: ErrNoIndexFunc}
	}
	return AddOrderedIndexAppend(to, name, func(values []I, object T) []I { return append(values, fn(object)...) })
}

// AddOrderedIndexAppend is [AddIndexAppend] for values that have an order.
func AddOrderedIndexAppend[T any, I cmp.Ordered](to Indexable[T], name string, fn func(values []I, object T) []I) (*OrderedIndex[I, T], error) {
	x := &OrderedIndex[I, T]{}
	v := &vocabulary[I, T]{values: fn, shared: true, terms: make(map[I]*term)}
	less := func(a, b posting) bool {
		if c := compareValues[I](a.term, b.term); c != 0 {
			return c < 0
		}
		return lessEntryOf(a, b)
	}
	if err := x.add(to, name, v, less, nil); err != nil {
		return nil, err
	}
	return x, nil
}

// On returns the index as it is in a snapshot: see [Index.On].
func (x *OrderedIndex[I, T]) On(snapshot *Snapshot[T]) *OrderedIndex[I, T] {
	pinned := *x
	pinned.at = snapshot
	return &pinned
}

// Get iterates over the objects that have a value, in the order of their keys.
func (x *OrderedIndex[I, T]) Get(value I) iter.Seq2[Key, T] {
	return x.ascend(&value, func(v I) bool { return v == value })
}

// Range iterates over the objects whose values are from or greater, and less than
// to, in the order of the values.
func (x *OrderedIndex[I, T]) Range(from, to I) iter.Seq2[Key, T] {
	return x.ascend(&from, func(v I) bool { return v < to })
}

// From iterates over the objects whose values are from or greater, in the order
// of the values.
func (x *OrderedIndex[I, T]) From(from I) iter.Seq2[Key, T] {
	return x.ascend(&from, func(I) bool { return true })
}

// All iterates over all objects that have a value, in the order of the values.
func (x *OrderedIndex[I, T]) All() iter.Seq2[Key, T] {
	return x.ascend(nil, func(I) bool { return true })
}

// Backward iterates over all objects that have a value, the greatest value
// first, and the greatest key of a value first.
func (x *OrderedIndex[I, T]) Backward() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		s, tree, indexed := x.tree()
		if !indexed {
			for _, f := range slices.Backward(x.sorted(s)) {
				if !yield(f.key, f.object) {
					return
				}
			}
			return
		}
		tree.reverse(func(p posting) bool { return yield(p.entry.key(), entryOf[T](p.entry).object) })
	}
}

// Values iterates over the distinct values that any object has, in order.
func (x *OrderedIndex[I, T]) Values() iter.Seq[I] {
	return func(yield func(I) bool) {
		s, _, indexed := x.tree()
		if indexed {
			x.values()(yield)
			return
		}
		all := x.sorted(s)
		for i, f := range all {
			if (i == 0 || all[i-1].value != f.value) && !yield(f.value) {
				return
			}
		}
	}
}

// ascend iterates from a value on, or from the least, for as long as within says.
func (x *OrderedIndex[I, T]) ascend(from *I, within func(I) bool) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		s, tree, indexed := x.tree()
		if !indexed {
			for _, f := range x.sorted(s) {
				if from != nil && f.value < *from {
					continue
				}
				if !within(f.value) || !yield(f.key, f.object) {
					return
				}
			}
			return
		}
		var last *term
		visit := func(p posting) bool {
			if p.term != last {
				if !within(p.term.value.(I)) {
					return false
				}
				last = p.term
			}
			return yield(p.entry.key(), entryOf[T](p.entry).object)
		}
		if from == nil {
			tree.scan(visit)
			return
		}
		tree.ascend(posting{term: &term{value: *from}}, visit)
	}
}

// finding is what a search without the tree finds.
type finding[I cmp.Ordered, T any] struct {
	value  I
	key    Key
	object T
}

// sorted returns the whole index of a state that does not have it.
func (x *OrderedIndex[I, T]) sorted(s *Snapshot[T]) []finding[I, T] {
	var all []finding[I, T]
	for key, object := range s.All() {
		for _, value := range x.vocabulary.of(object) {
			if value == value {
				all = append(all, finding[I, T]{value, key, object})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b finding[I, T]) int { return cmp.Compare(a.value, b.value) })
	return all
}
