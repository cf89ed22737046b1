package store

import (
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/tidwall/btree"
)

// Indexable is what an index can be added to: a [Cache] or a [View] of one.
type Indexable[T any] interface {
	cache() *Cache[T]
}

// Index finds the objects of a cache by a value that a function derives from
// them, such as the node of a pod. An object may have any number of values.
//
// Create one with [AddIndex]. All methods are safe for concurrent use, and
// answer from the state that is current when they are called.
type Index[I comparable, T any] struct {
	name string
	of   *Cache[T]
	fn   func(T) []I
	seed maphash.Seed

	// postings has one element for each value of each object. Guarded by of.mu
	// and of.writer as the entries of the cache are.
	postings *btree.BTreeG[*posting[I, T]]
	// position is the index's place in Cache.indexes, entry.values and
	// Snapshot.indexes.
	position int
}

// posting says that an object has a value. Values have no order, so postings
// are ordered by the hash of the value, then by key; slot tells apart two
// values of one object that hash alike.
type posting[I comparable, T any] struct {
	hash  uint64
	slot  int
	value I
	entry *entry[T] // nil only in a pivot: before all others of its hash
}

func lessPosting[I comparable, T any](a, b *posting[I, T]) bool {
	if a.hash != b.hash {
		return a.hash < b.hash
	}
	if a.entry == nil || b.entry == nil {
		return a.entry == nil && b.entry != nil
	}
	if c := a.entry.key.Compare(b.entry.key); c != 0 {
		return c < 0
	}
	return a.slot < b.slot
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
// index. It must be pure: the same object always has the same values.
//
// AddIndex returns an [*IndexError], and adds nothing, if the name is taken
// ([ErrIndexExists]), if there is no function ([ErrNoIndexFunc]), or if the function panics for an object that the cache
// holds ([ErrPanic]). If it panics later, the object that it was called with is
// rejected: see [RejectedError].
func AddIndex[T any, I comparable](to Indexable[T], name string, fn func(T) []I) (*Index[I, T], error) {
	if fn == nil {
		return nil, &IndexError{Index: name, Err: ErrNoIndexFunc}
	}
	c := to.cache()
	c.writer.Lock()
	defer c.writer.Unlock()
	if slices.ContainsFunc(c.indexes, func(x index[T]) bool { return x.Name() == name }) {
		return nil, &IndexError{Index: name, Err: ErrIndexExists}
	}
	x := &Index[I, T]{
		name:     name,
		of:       c,
		fn:       fn,
		seed:     maphash.MakeSeed(),
		postings: btree.NewBTreeGOptions(lessPosting[I, T], btree.Options{NoLocks: true}),
		position: len(c.indexes),
	}
	values := make(map[*entry[T]]any, len(c.objects))
	for key, e := range c.objects {
		v, err := x.valuesOf(key, e.object)
		if err != nil {
			return nil, err
		}
		values[e] = v
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.published.Store(nil)
	c.indexes = append(c.indexes, x)
	for e, v := range values {
		e.values = append(e.values, v)
		x.move(x.position, nil, e)
	}
	return x, nil
}

// Name returns the name that the index was added under.
func (x *Index[I, T]) Name() string { return x.name }

// Get iterates over the objects that have a value, in the order of their keys.
func (x *Index[I, T]) Get(value I) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		hash := maphash.Comparable(x.seed, value)
		x.published().Ascend(&posting[I, T]{hash: hash}, func(p *posting[I, T]) bool {
			if p.hash != hash {
				return false
			}
			return p.value != value || yield(p.entry.key, p.entry.object)
		})
	}
}

// Values iterates over the distinct values that any object has, in no
// particular order.
func (x *Index[I, T]) Values() iter.Seq[I] {
	return func(yield func(I) bool) {
		var hash uint64
		var seen []I // the values of this hash: nearly always one
		x.published().Scan(func(p *posting[I, T]) bool {
			if p.hash != hash {
				hash, seen = p.hash, seen[:0]
			}
			if slices.Contains(seen, p.value) {
				return true
			}
			seen = append(seen, p.value)
			return yield(p.value)
		})
	}
}

func (x *Index[I, T]) published() *btree.BTreeG[*posting[I, T]] {
	return x.of.Snapshot().indexes[x.position].(*btree.BTreeG[*posting[I, T]])
}

// index is an [Index] as its cache sees it, which does not know the type of its
// values.
type index[T any] interface {
	Name() string
	// valuesOf runs the user's function.
	valuesOf(key Key, object T) (values any, err error)
	// move makes the postings of one entry those of another under the same
	// key; either may be nil. The caller holds writer and mu.
	move(position int, from, to *entry[T])
	// publish returns a copy of the postings that no commit changes. The
	// caller holds mu.
	publish() any
}

func (x *Index[I, T]) valuesOf(key Key, object T) (values any, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &IndexError{Index: x.name, Key: key, Err: recovered(value)}
		}
	}()
	return x.postingsOf(x.fn(object)), nil
}

// postingsOf returns the postings, their entries still missing, of an object
// that has the given values.
func (x *Index[I, T]) postingsOf(values []I) []*posting[I, T] {
	var all []*posting[I, T]
	for i, value := range values {
		if slices.Contains(values[:i], value) {
			continue
		}
		p := &posting[I, T]{hash: maphash.Comparable(x.seed, value), value: value}
		for _, other := range all {
			if other.hash == p.hash {
				p.slot++
			}
		}
		all = append(all, p)
	}
	return all
}

func (x *Index[I, T]) move(position int, from, to *entry[T]) {
	if from != nil {
		for _, p := range from.values[position].([]*posting[I, T]) {
			x.postings.Delete(p)
		}
	}
	if to != nil {
		for _, p := range to.values[position].([]*posting[I, T]) {
			p.entry = to
			x.postings.Set(p)
		}
	}
}

func (x *Index[I, T]) publish() any { return x.postings.Copy() }
