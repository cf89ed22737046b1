package store

import (
	"fmt"
	"slices"
)

// Filter returns a store that writes to dst only the objects that keep accepts. It
// is a [BatchStore], and gives a batch to dst as one batch.
//
// An object that does not pass is deleted from dst, with the state that did not
// pass as its last one: so one that leaves the filter goes, and the resource
// version moves on either way. A deletion passes without being asked about. In a
// Replace what does not pass is taken as not listed.
//
// An object for which keep panics is rejected ([ErrPanic]): dst keeps what it
// holds under the key, and the resource version stays before it. keep is not
// called for a nil: that is passed on, for dst to reject. Without dst every write
// fails with [ErrNoStore], without keep every object is rejected with
// [ErrNoFunc].
//
// The key of a rejected object is the one that dst derives. That takes a dst with
// a method KeyOf(T) (Key, error), as all stores of this module have. With another
// one, what is held is found by UID, only a Replace lets the resource version
// go on, and of two objects of a list with one key the last that passes counts. A
// dst that is no [BatchStore] can keep nothing that a list does not give it: a
// Replace with a rejected object is refused as a whole with a [*RefusedError], and
// a later write moves the resource version past a rejected one.
//
// keep must judge by the object alone: one that dst holds at the version that was
// listed is not always shown to it again. It runs in the goroutine that writes,
// before dst is called and so outside of its locks. The Filter has no state: it
// may be used as concurrently as dst and keep can be.
func Filter[T any](dst Store[T], keep func(T) bool) Store[T] {
	f := &filter[T]{keep: keep, keyOf: keyFuncOf(dst), versioned: mayHaveVersion[T](), nilable: mayBeNil[T]()}
	f.decorator = decorator[T, T]{dst: destination(dst), pass: f.translate}
	return f
}

type filter[T any] struct {
	decorator[T, T]
	keep               func(T) bool
	keyOf              KeyFunc[T] // nil if dst does not tell
	versioned, nilable bool
}

var _ BatchStore[any] = (*filter[any])(nil)

func (f *filter[T]) Itself() Store[T] { return f }

func (f *filter[T]) KeyOf(object T) (Key, error) {
	key, _, err := identify(f.keyOf, false, object)
	return key, err
}

// translate returns what a write means for dst.
func (f *filter[T]) translate(w Write[T]) Write[T] {
	if w.Type != WriteAdd && w.Type != WriteUpdate {
		return w
	}
	kept, err := f.keeps(w.Object)
	if err != nil {
		rejection := f.reject(w.Object, Identity{w.Key, w.Version}, err)
		return Write[T]{Type: WriteLack, Rejection: &rejection}
	}
	if !kept {
		w.Type = WriteDelete
	}
	return w
}

// keeps runs the user's function.
func (f *filter[T]) keeps(object T) (kept bool, err error) {
	if f.nilable && isNil(object) {
		return true, nil
	}
	if f.keep == nil {
		return false, fmt.Errorf("filter: %w", ErrNoFunc)
	}
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("filter: %w", recovered(value))
		}
	}()
	return f.keep(object), nil
}

func (f *filter[T]) reject(object T, told Identity, err error) Rejection {
	key, version, _ := identify(f.keyOf, f.versioned, object)
	key, version, _ = told.check(key, version, nil)
	return Rejection{Key: key, Version: version, Err: err}
}

func (f *filter[T]) Replace(objects []T, resourceVersion string) error {
	return f.ReplaceAll(Listing[T]{Objects: objects, ResourceVersion: resourceVersion})
}

func (f *filter[T]) ReplaceAll(l Listing[T]) error {
	var kept, dropped, lackingAt []int
	var lacking []Rejection
	for i, object := range l.Objects {
		ok, err := f.keeps(object)
		switch {
		case err != nil:
			lacking = append(lacking, f.reject(object, l.identity(i), err))
			lackingAt = append(lackingAt, i)
		case ok:
			kept = append(kept, i)
		default:
			dropped = append(dropped, i)
		}
	}
	keyOf := func(places []int) func(int) Key {
		return func(n int) Key { return f.keyAt(&l, places[n]) }
	}
	inKept, inDropped := group{kept, keyOf(kept)}, group{dropped, keyOf(dropped)}
	inLacking := group{lackingAt, func(n int) Key { return lacking[n].Key }}
	out := superseded(inKept, inDropped, inLacking)
	passed := Listing[T]{
		Unchanged:       f.stillUnchanged(l.Unchanged, inDropped),
		Lacking:         slices.Concat(l.Lacking, drop(lacking, inLacking, out)),
		ResourceVersion: l.ResourceVersion,
	}
	kept = drop(kept, inKept, out)
	passed.Objects = make([]T, len(kept))
	if l.Identities != nil {
		passed.Identities = make([]Identity, len(kept))
	}
	for n, i := range kept {
		passed.Objects[n] = l.Objects[i]
		if l.Identities != nil {
			passed.Identities[n] = l.identity(i)
		}
	}
	return f.dst.ReplaceAll(passed)
}

// keyAt returns the key of an object of a list, zero if it is not known.
func (f *filter[T]) keyAt(l *Listing[T], place int) Key {
	if told := l.identity(place).Key; told != (Key{}) {
		return told
	}
	key, _ := f.KeyOf(l.Objects[place])
	return key
}

// stillUnchanged returns the keys that do not belong to an object which was given
// as well, and did not pass.
func (f *filter[T]) stillUnchanged(keys []Key, dropped group) []Key {
	if len(keys) == 0 || len(dropped.places) == 0 {
		return keys
	}
	gone := make(map[Key]bool, len(dropped.places))
	for n := range dropped.places {
		gone[dropped.key(n)] = true
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key Key) bool { return gone[key] })
}
