package store

import (
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
)

// UniqueIndex finds the one object that has a value. If several have it, the one
// that got it last holds it: the clash is reported when it comes up, and never an
// error of a read. When the holder changes or goes, the next one holds the value. An
// object that was created again, with a new UID, got its value anew.
//
// Create one with [AddUniqueIndex]. All methods are safe for concurrent use: see
// [Index].
type UniqueIndex[I comparable, T any] struct {
	reader[I, T]
	seed maphash.Seed
}

// Clash says that two objects have one value of a [UniqueIndex].
type Clash[I comparable, T any] struct {
	Value I
	// Key and Object are the object that got the value last, and holds it.
	Key    Key
	Object T
	// OtherKey and Other are the object that held it before, and has it still.
	OtherKey Key
	Other    T
}

// HookError means that the function of a [UniqueIndex] that is told of clashes
// panicked. The write, or the adding of the index, was made all the same: there is
// nothing to repeat.
type HookError struct {
	// Index is the name of the index.
	Index string
	// Key is the object that got the value.
	Key Key
	// Err wraps [ErrPanic].
	Err error
}

// Error names the index, the object and the cause.
func (e *HookError) Error() string {
	return fmt.Sprintf("index %q: stored, but the function for clashes failed for %q: %v", e.Index, e.Key, e.Err)
}

// Unwrap returns Err.
func (e *HookError) Unwrap() error { return e.Err }

// AddUniqueIndex is [AddIndex] for a value that no two objects should share. The
// function returns the value of an object, and whether it has one.
//
// A commit after which two objects share a value that they did not share before
// is reported to clashed, once for each object that got it. It is called under the
// writer's lock, after the commit is visible: it must be quick and must not write
// to the cache, and may read from it. If it panics, the write returns a
// [*HookError] although it was made; so does AddUniqueIndex, which reports the
// clashes of what the cache holds, together with the index. A nil clashed ignores
// clashes.
func AddUniqueIndex[T any, I comparable](to Indexable[T], name string, fn func(T) (I, bool), clashed func(Clash[I, T])) (*UniqueIndex[I, T], error) {
	x := &UniqueIndex[I, T]{seed: maphash.MakeSeed()}
	v := &vocabulary[I, T]{hash: x.hash}
	if fn != nil {
		v.values = func(values []I, object T) []I {
			if value, ok := fn(object); ok {
				values = append(values, value)
			}
			return values
		}
	}
	c := &clashes[T]{}
	if clashed != nil {
		c.hook = func(claim *term, holder, other *entry[T]) {
			clashed(Clash[I, T]{Value: valueOf[I](claim), Key: holder.key(), Object: holder.object, OtherKey: other.key(), Other: other.object})
		}
	}
	err := x.add(to, name, v, lessByClaim, c)
	if x.of == nil {
		return nil, err
	}
	return x, err // that of a hook: the index was added
}

func (x *UniqueIndex[I, T]) hash(value I) uint64 { return maphash.Comparable(x.seed, value) }

// On returns the index as it is in a snapshot: see [Index.On]. In one that is
// older than the index, the object with the greatest key holds a value that
// several have.
func (x *UniqueIndex[I, T]) On(snapshot *Snapshot[T]) *UniqueIndex[I, T] {
	pinned := *x
	pinned.at = snapshot
	return &pinned
}

// Get returns the object that holds a value, its key, and whether there is one.
func (x *UniqueIndex[I, T]) Get(value I) (key Key, object T, ok bool) {
	s, tree, indexed := x.tree()
	if !indexed {
		x.scan(s, func(v I) bool { return v == value }, func(k Key, o T) bool {
			key, object, ok = k, o, true
			return true
		})
		return key, object, ok
	}
	hash := x.hash(value)
	tree.ascend(posting{term: &term{hash: hash, seq: firstClaim}}, func(p posting) bool {
		if p.term.hash == hash && valueOf[I](p.term) == value {
			key, object, ok = p.entry.key(), entryOf[T](p.entry).object, true
		}
		return !ok && p.term.hash == hash
	})
	return key, object, ok
}

// Values iterates over the values that any object has, in no particular order.
func (x *UniqueIndex[I, T]) Values() iter.Seq[I] {
	return func(yield func(I) bool) {
		var hash uint64
		var seen []I // the values of this hash: nearly always one
		x.values()(func(value I) bool {
			if h := x.hash(value); h != hash {
				hash, seen = h, seen[:0]
			}
			if slices.Contains(seen, value) {
				return true
			}
			seen = append(seen, value)
			return yield(value)
		})
	}
}

// clashes watches over a unique index: each of its terms is the claim of one
// object on a value. Guarded by Cache.writer.
type clashes[T any] struct {
	hook func(claim *term, holder, other *entry[T])
	// claimed are the claims of this commit.
	claimed []posting
}

// claim notes what an entry claims that takes the place of another one. A value
// that the other one had is not claimed anew, unless it was of another object.
// Writing to to writes to new.
func (c *clashes[T]) claim(from, to []*term, old, new *entry[T]) {
	for i, t := range to {
		if len(from) == 1 && from[0].value == t.value && !old.known().recreated(new.known()) {
			to[i] = from[0] // which is part of what new has
			from[0].uses++
			continue
		}
		c.claimed = append(c.claimed, posting{t, &new.header})
	}
}

// report tells of the values claimed by a commit that others have as well.
func (c *clashes[T]) report(x *postings[T]) error {
	var errs []error
	for _, p := range c.claimed {
		if holder, other := c.rivals(x, p.term); other != nil && c.hook != nil {
			errs = append(errs, c.call(x.name, p.term, holder, other))
		}
	}
	if cap(c.claimed) > maxScratch {
		c.claimed = nil
	}
	clear(c.claimed)
	c.claimed = c.claimed[:0]
	return errors.Join(errs...)
}

// rivals returns the entry that has made a claim, and the one whose claim on the
// same value came before.
func (c *clashes[T]) rivals(x *postings[T], claim *term) (holder, other *entry[T]) {
	// The newest claim of a hash comes first, so the search can begin at this
	// one: however many others there are on its value, it looks at one of them.
	x.tree.ascend(posting{term: claim}, func(p posting) bool {
		switch {
		case p.term.hash != claim.hash:
			return false
		case p.term == claim:
			holder = entryOf[T](p.entry)
		case holder != nil && p.term.value == claim.value:
			other = entryOf[T](p.entry)
		}
		return holder != nil && other == nil
	})
	return holder, other
}

func (c *clashes[T]) call(index string, claim *term, holder, other *entry[T]) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &HookError{Index: index, Key: holder.key(), Err: recovered(value)}
		}
	}()
	c.hook(claim, holder, other)
	return nil
}
