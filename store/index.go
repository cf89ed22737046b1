package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
)

// Indexable is what an index can be added to: a [Cache] or a [View] of one.
type Indexable[T any] interface {
	cache() *Cache[T]
}

// Index finds the objects of a cache by a value that a function derives from
// them, such as the node of a pod. An object may have any number of values. A
// value that is not equal to itself, a NaN, is not indexed.
//
// Create one with [AddIndex] or [AddIndexAppend]. All methods are safe for
// concurrent use, and answer from the state that is current when an iteration
// begins, or from the one that was given to [Index.On]. Iterating takes no lock
// and allocates nothing for an object.
type Index[I comparable, T any] struct {
	reader[I, T]
	seed maphash.Seed
}

// IndexError says that an index could not be added, or that its function
// failed for an object.
type IndexError struct {
	// Index is the name of the index.
	Index string
	// Key is the object that its function failed for; zero if it did not.
	Key Key
	Err error
}

// Error names the index, the object and the cause.
func (e *IndexError) Error() string {
	if e.Key == (Key{}) {
		return fmt.Sprintf("index %q: %v", e.Index, e.Err)
	}
	return fmt.Sprintf("index %q: function for %q: %v", e.Index, e.Key, e.Err)
}

// Unwrap returns Err.
func (e *IndexError) Unwrap() error { return e.Err }

// ErrNoIndexFunc means that an index was to be added without a function.
var ErrNoIndexFunc = errors.New("no index function")

// ErrIndexExists means that a cache has an index of that name already.
var ErrIndexExists = errors.New("name is taken by another index of this cache")

// AddIndex adds an index to a cache, at any time: what the cache holds is
// indexed before AddIndex returns. The function returns the values of an
// object, in any order, and none if the object is not to be found by this
// index. It must be pure: the same object always has the same values. The index is
// kept up to date for the life of the cache: there is no way to remove one.
//
// AddIndex returns an [*IndexError], and adds nothing, if the name is taken
// ([ErrIndexExists]), if there is no function ([ErrNoIndexFunc]), or if the
// function panics for an object that the cache holds ([ErrPanic]). If it panics
// later, the object that it was called with is rejected: see [RejectedError].
func AddIndex[T any, I comparable](to Indexable[T], name string, fn func(T) []I) (*Index[I, T], error) {
	if fn == nil {
		return nil, &IndexError{Index: name, Err: ErrNoIndexFunc}
	}
	return AddIndexAppend(to, name, func(values []I, object T) []I { return append(values, fn(object)...) })
}

// AddIndexAppend is AddIndex with a function that appends the values of an object
// to a slice, as [append] does, and returns the result. The slice has room from
// earlier calls, so that nothing need be allocated.
func AddIndexAppend[T any, I comparable](to Indexable[T], name string, fn func(values []I, object T) []I) (*Index[I, T], error) {
	x := &Index[I, T]{seed: maphash.MakeSeed()}
	v := &vocabulary[I, T]{values: fn, hash: x.hash, shared: true, terms: make(map[I]*term)}
	if err := x.add(to, name, v, lessByHash, nil); err != nil {
		return nil, err
	}
	return x, nil
}

func (x *Index[I, T]) hash(value I) uint64 { return maphash.Comparable(x.seed, value) }

// On returns the index as it is in a snapshot. In one that is older than the
// index, or from another cache, every read looks at all objects.
func (x *Index[I, T]) On(snapshot *Snapshot[T]) *Index[I, T] {
	pinned := *x
	pinned.at = snapshot
	return &pinned
}

// Get iterates over the objects that have a value, in the order of their keys.
func (x *Index[I, T]) Get(value I) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		s, tree, indexed := x.tree()
		if !indexed {
			x.scan(s, func(v I) bool { return v == value }, yield)
			return
		}
		hash := x.hash(value)
		var last *term
		found := false
		next := bundle[T]{yield: yield}
		tree.ascend(posting{term: &term{hash: hash}}, func(p posting) bool {
			if p.term != last {
				if p.term.hash != hash {
					return false
				}
				last, found = p.term, valueOf[I](p.term) == value
			}
			return !found || next.add(entryOf[T](p.entry))
		})
		next.flush()
	}
}

// Values iterates over the distinct values that any object has, in no
// particular order.
func (x *Index[I, T]) Values() iter.Seq[I] { return x.values() }

// reader is what the indexes have in common.
type reader[I comparable, T any] struct {
	of         *Cache[T]
	at         *Snapshot[T] // nil for the current one
	postings   *postings[T]
	vocabulary *vocabulary[I, T]
}

// add makes an index part of a cache.
func (r *reader[I, T]) add(to Indexable[T], name string, v *vocabulary[I, T], less func(a, b posting) bool, clashes *clashes[T]) error {
	if v.values == nil {
		return &IndexError{Index: name, Err: ErrNoIndexFunc}
	}
	c := to.cache()
	c.writer.Lock()
	defer c.writer.Unlock()
	if slices.ContainsFunc(c.indexes, func(x *postings[T]) bool { return x.name == name }) {
		return &IndexError{Index: name, Err: ErrIndexExists}
	}
	v.name, v.position = name, len(c.indexes)
	x := &postings[T]{
		name:     name,
		position: v.position,
		tree:     newPostingTree(less),
		terms:    v.find,
		release:  v.release,
		claim:    v.claim,
		clashes:  clashes,
	}
	if err := c.fill(x); err != nil {
		return err
	}
	r.of, r.postings, r.vocabulary = c, x, v
	c.trees.Lock()
	c.mu.Lock()
	c.published.Store(nil)
	c.indexes = append(c.indexes, x)
	c.mu.Unlock()
	c.trees.Unlock()
	if clashes != nil {
		return clashes.report(x)
	}
	return nil
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
		if terms, err = x.terms(nil, e.key(), e.object); err != nil {
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

// Name returns the name that the index was added under.
func (r *reader[I, T]) Name() string { return r.postings.name }

// Watch is [Cache.WatchKey] for the objects that have a value.
func (r *reader[I, T]) Watch(ctx context.Context, value I) iter.Seq[*Snapshot[T]] {
	return r.of.watch(ctx, indexTopic{r.postings.position, value})
}

// tree returns the state to read from and the tree of the index in it, and false if
// the index was not there.
func (r *reader[I, T]) tree() (s *Snapshot[T], tree postingTree, ok bool) {
	s = r.at
	if s == nil {
		s = r.of.Snapshot()
	}
	if s.of != r.of || r.postings.position >= len(s.indexes) {
		return s, tree, false
	}
	return s, s.indexes[r.postings.position], true
}

// scan reads an index from a state that does not have it.
func (r *reader[I, T]) scan(s *Snapshot[T], match func(I) bool, yield func(Key, T) bool) {
	for key, object := range s.All() {
		if slices.ContainsFunc(r.vocabulary.of(object), match) && !yield(key, object) {
			return
		}
	}
}

// values iterates over the distinct values, in the order of the tree.
func (r *reader[I, T]) values() iter.Seq[I] {
	return func(yield func(I) bool) {
		s, tree, indexed := r.tree()
		if !indexed {
			seen := make(map[I]bool)
			for _, object := range s.All() {
				for _, value := range r.vocabulary.of(object) {
					if !seen[value] {
						if seen[value] = true; !yield(value) {
							return
						}
					}
				}
			}
			return
		}
		var last *term
		tree.scan(func(p posting) bool {
			if p.term == last {
				return true
			}
			last = p.term
			return yield(valueOf[I](p.term))
		})
	}
}

// compareValues orders by value the postings of an index whose values have an
// order.
func compareValues[I cmp.Ordered](a, b *term) int {
	if a == b {
		return 0
	}
	return cmp.Compare(a.value.(I), b.value.(I))
}
