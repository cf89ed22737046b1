package store

import (
	"errors"
	"reflect"
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
	passed := Batch[S]{writes: make([]Write[S], 0, batch.Len())}
	for w := range batch.All() {
		passed.Append(d.pass(w))
	}
	return d.dst.Apply(&passed)
}

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
	if keyed, ok := s.(interface{ KeyOf(T) (Key, error) }); ok && !isNil(s) {
		return keyed.KeyOf
	}
	return nil
}

// listed is some of the objects of a list: their places in it, and their keys.
type listed struct {
	places []int
	keys   []Key
}

func (l *listed) add(place int, key Key) {
	l.places = append(l.places, place)
	l.keys = append(l.keys, key)
}

// before returns the keys of which a list has one of others later than any of l:
// where two objects have one key, the later one counts.
func (l *listed) before(others listed) map[Key]bool {
	if len(l.keys) == 0 || len(others.keys) == 0 {
		return nil
	}
	last := make(map[Key]int, len(l.keys))
	for n, key := range l.keys {
		last[key] = l.places[n]
	}
	outdated := make(map[Key]bool)
	for n, key := range others.keys {
		if place, twice := last[key]; twice && place < others.places[n] {
			outdated[key] = true
		}
	}
	return outdated
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
