package store

import "fmt"

// Transform returns a store of T that keeps what fn makes of each object in dst,
// such as a copy with fewer fields, or a smaller type. It is a [BatchStore], and
// gives a batch to dst as one batch.
//
// Keys stay: key says which key an object has before fn, dst's KeyFunc which it
// has after. They must agree, because deletions go by either; an object for which
// they do not is rejected with [ErrKeyMismatch]. Versions stay, too: UID and
// resource version of each T go along with its S, so that everything that needs
// them works with an S without metadata, as long as dst takes batches. fn is not
// called for an object of a list that dst holds at the version that was listed.
//
// An object for which fn returns an error, panics, or returns a nil pointer or
// interface is rejected: nothing else is stopped, dst keeps what it holds under
// the key, and the resource version stays before it until the key is stored or
// deleted. A deletion needs no more than the key, so it is made also if fn refuses
// the last state. A dst that is no [BatchStore] can keep nothing that a list does
// not give it: a Replace with a rejected object is refused as a whole with a
// [*RefusedError], and a later write moves the resource version past a rejected
// one. Without dst every write fails with [ErrNoStore]; without key or fn every
// object is rejected with [ErrNoKeyFunc] or [ErrNoFunc].
//
// fn must not change the object that it is given if others may have it, such as
// another store behind a [Tee]. It runs in the goroutine that writes, before dst
// is called and so outside of its locks. A reflector has it called for each object of a
// list as it comes, so that no more is kept of a large list than what fn makes of it;
// what comes of a list that breaks off is dropped. The Transform has no state: it may be
// used as concurrently as dst, fn and key can be.
func Transform[T, S any](dst Store[S], key KeyFunc[T], fn func(T) (S, error)) Store[T] {
	t := &transform[T, S]{keyOf: key, fn: fn, versioned: mayHaveVersion[T](), nilable: mayBeNil[S]()}
	t.decorator = decorator[T, S]{dst: destination(dst), pass: t.translate}
	return t
}

type transform[T, S any] struct {
	decorator[T, S]
	keyOf              KeyFunc[T]
	fn                 func(T) (S, error)
	versioned, nilable bool
}

var _ Stager[any] = (*transform[any, any])(nil)

func (t *transform[T, S]) Itself() Store[T] { return t }

func (t *transform[T, S]) KeyOf(object T) (Key, error) {
	key, _, err := identify(t.keyOf, false, object)
	return key, err
}

// translate returns what a write means for dst.
func (t *transform[T, S]) translate(w Write[T]) Write[S] {
	passed := Write[S]{Type: w.Type, Key: w.Key, Version: w.Version, Rejection: w.Rejection}
	switch w.Type {
	case WriteAdd, WriteUpdate, WriteDelete:
	default:
		return passed
	}
	var err error
	passed.Key, passed.Version, err = t.recognise(w.Object, Identity{w.Key, w.Version})
	if err == nil {
		passed.Object, err = t.call(w.Object)
		if err != nil && w.Type == WriteDelete {
			passed.Type = WriteDeleteKey
			return passed
		}
	}
	if err != nil {
		passed.Type = WriteLack
		passed.Rejection = &Rejection{Key: passed.Key, Version: passed.Version, Err: err}
	}
	return passed
}

func (t *transform[T, S]) recognise(object T, told Identity) (Key, Version, error) {
	return told.check(identify(t.keyOf, t.versioned, object))
}

// call runs the user's function.
func (t *transform[T, S]) call(object T) (result S, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = recovered(value)
		}
		if err != nil {
			var none S
			result, err = none, fmt.Errorf("transform: %w", err)
		}
	}()
	if t.fn == nil {
		return result, ErrNoFunc
	}
	result, err = t.fn(object)
	if err == nil && t.nilable && isNil(result) {
		err = ErrNilObject
	}
	return result, err
}

func (t *transform[T, S]) Replace(objects []T, resourceVersion string) error {
	return t.ReplaceAll(Listing[T]{Objects: objects, ResourceVersion: resourceVersion})
}

func (t *transform[T, S]) ReplaceAll(l Listing[T]) error {
	stage := t.Stage(t)
	defer stage.Discard() // if the function ends the goroutine
	for i, object := range l.Objects {
		stage.Put(object, l.identity(i))
	}
	return stage.Commit(l)
}
