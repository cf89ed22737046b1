package store

import (
	"errors"
	"reflect"
	"slices"
)

var (
	// ErrNoStore means that a decorator was made without a store behind it, or
	// with one that is nil, and so has nowhere to write to.
	ErrNoStore = errors.New("no store: pass one to Transform, Filter or Tee, such as store.New(store.ObjectKey)")

	// ErrNoFunc means that a [Transform] or a [Filter] was made without its
	// function.
	ErrNoFunc = errors.New("no function: pass one to Transform or Filter")
)

// decorator makes writes of T to writes of S. Those that embed it add what they
// do with a list.
type decorator[T, S any] struct {
	dst  BatchStore[S]
	pass func(Write[T]) Write[S]
}

func (d *decorator[T, S]) Add(object T) error {
	return d.write(Write[T]{Type: WriteAdd, Object: object})
}

func (d *decorator[T, S]) Update(object T) error {
	return d.write(Write[T]{Type: WriteUpdate, Object: object})
}

func (d *decorator[T, S]) Delete(object T) error {
	return d.write(Write[T]{Type: WriteDelete, Object: object})
}

func (d *decorator[T, S]) write(w Write[T]) error { return d.dst.Apply(batchOf(d.pass(w))) }

func (d *decorator[T, S]) DeleteKey(key Key) error { return d.dst.DeleteKey(key) }

func (d *decorator[T, S]) Bookmark(resourceVersion string) error {
	return d.dst.Bookmark(resourceVersion)
}

func (d *decorator[T, S]) ResourceVersion() string { return d.dst.ResourceVersion() }

func (d *decorator[T, S]) Apply(batch *Batch[T]) error {
	writes := batch.list()
	passed := Batch[S]{writes: make([]Write[S], 0, len(writes))}
	for _, w := range writes {
		passed.Append(d.pass(w))
	}
	return d.dst.Apply(&passed)
}

func (d *decorator[T, S]) Resumed() { resumed(d.dst.Itself()) }

func (d *decorator[T, S]) Holds(key Key, version Version) bool { return d.dst.Holds(key, version) }

// destination returns a store that a decorator can write to.
func destination[T any](s Store[T]) BatchStore[T] {
	if isNil(s) {
		return nowhere[T]{}
	}
	return Batches(s)
}

// keyFuncOf returns how a store derives keys, or nil if it does not tell.
func keyFuncOf[T any](s Store[T]) KeyFunc[T] {
	if keyed, ok := s.(interface{ KeyOf(T) (Key, error) }); ok {
		return keyed.KeyOf
	}
	return nil
}

// group is what a decorator does the same with in a list: the places of some
// objects, and their keys; zero for those without one.
type group struct {
	places []int
	key    func(n int) Key
}

// superseded returns whether an object of one of some groups, by place and key,
// has a later one with its key in another group: the stores behind cannot know the
// order of what they are given apart. It is nil if there is none.
func superseded(groups ...group) func(place int, key Key) bool {
	groups = slices.DeleteFunc(groups, func(g group) bool { return len(g.places) == 0 })
	if len(groups) < 2 {
		return nil
	}
	// The largest group is looked up in what the others have, which is little
	// if most of the list is as it was.
	slices.SortFunc(groups, func(a, b group) int { return len(a.places) - len(b.places) })
	last := make(map[Key]int)
	for _, g := range groups[:len(groups)-1] {
		for n, place := range g.places {
			if key := g.key(n); key != (Key{}) {
				last[key] = max(last[key], place)
			}
		}
	}
	twice := len(groups) > 2
	largest := groups[len(groups)-1]
	for n, place := range largest.places {
		if before, ok := last[largest.key(n)]; ok {
			last[largest.key(n)], twice = max(before, place), true
		}
	}
	if !twice {
		return nil
	}
	return func(place int, key Key) bool {
		later, ok := last[key]
		return ok && place < later
	}
}

// drop takes what is superseded out of a slice that has something for each object
// of a group.
func drop[E any](all []E, of group, superseded func(int, Key) bool) []E {
	if superseded == nil {
		return all
	}
	kept := make([]E, 0, len(all))
	for n, e := range all {
		if !superseded(of.places[n], of.key(n)) {
			kept = append(kept, e)
		}
	}
	return kept
}

// nowhere is the place of a store that is missing.
type nowhere[T any] struct{}

func (nowhere[T]) Add(T) error                 { return ErrNoStore }
func (nowhere[T]) Update(T) error              { return ErrNoStore }
func (nowhere[T]) Delete(T) error              { return ErrNoStore }
func (nowhere[T]) DeleteKey(Key) error         { return ErrNoStore }
func (nowhere[T]) Replace([]T, string) error   { return ErrNoStore }
func (nowhere[T]) Bookmark(string) error       { return ErrNoStore }
func (nowhere[T]) ResourceVersion() string     { return "" }
func (nowhere[T]) Apply(*Batch[T]) error       { return ErrNoStore }
func (nowhere[T]) ReplaceAll(Listing[T]) error { return ErrNoStore }
func (nowhere[T]) Holds(Key, Version) bool     { return false }
func (n nowhere[T]) Itself() Store[T]          { return n }

// mayBeNil reports whether there is a T that is no object at all. A nil slice or
// map is as good as an empty one.
func mayBeNil[T any]() bool {
	kind := reflect.TypeFor[T]().Kind()
	return kind == reflect.Pointer || kind == reflect.Interface
}

// isNil reports whether a value is nil, or a pointer that is.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
