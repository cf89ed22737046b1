package store

import (
	"errors"
	"fmt"
	"iter"
)

// BatchStore is a [Store] that takes many writes in one step. A reflector uses
// it where a Store has it: see [Batches].
type BatchStore[T any] interface {
	Store[T]

	// Apply makes the writes of a batch, in order, visible at once. What is bad
	// in it is left out, and comes back in a [*RejectedError].
	Apply(batch *Batch[T]) error

	// ReplaceAll is Replace by a list of which some objects are not given: those
	// that did not change, and those that cannot be had.
	ReplaceAll(listing Listing[T]) error

	// Holds reports whether an object is held under a key at a version. It is
	// false for a version that is not known in full. It may be asked by several
	// goroutines at once, while nobody writes.
	Holds(key Key, version Version) bool

	// Itself returns the store that these methods write to. A type that embeds a
	// BatchStore and overrides Add has it from the embedded one, and is so
	// recognised by [Batches], which does not go past it. A type that means its
	// own batches returns itself, and must be comparable: a pointer.
	Itself() Store[T]
}

// Listing is everything that a server holds, as a list told it. Of a key that is
// named twice, Lacking beats Objects, which beat Unchanged; of two Objects the later
// counts.
type Listing[T any] struct {
	// Objects are the objects as they were listed.
	Objects []T

	// Identities are those of Objects, one by one, as far as the objects do not
	// tell them: see [Identity]. It may be nil, or shorter than Objects; what is
	// beyond them is ignored.
	Identities []Identity

	// Unchanged names objects that were listed at the version which the store
	// holds, so that nobody had to decode them: see [BatchStore]'s Holds. They
	// stay as they are.
	Unchanged []Key

	// Lacking names objects that were listed and cannot be had. What is held
	// under their keys stays, and the resource version stays before them.
	Lacking []Rejection

	// ResourceVersion is that of the list.
	ResourceVersion string
}

// identity returns what is told of the object at a place.
func (l *Listing[T]) identity(place int) Identity {
	if place < len(l.Identities) {
		return l.Identities[place]
	}
	return Identity{}
}

// Batch is a sequence of writes that are to be made in one step. The zero Batch
// is empty and ready to use. It is not safe for concurrent use.
type Batch[T any] struct{ writes []Write[T] }

// WriteType says which method of a [Store] a [Write] stands for.
type WriteType uint8

const (
	// WriteAdd stands for Add.
	WriteAdd WriteType = iota + 1
	// WriteUpdate stands for Update.
	WriteUpdate
	// WriteDelete stands for Delete.
	WriteDelete
	// WriteDeleteKey stands for DeleteKey.
	WriteDeleteKey
	// WriteBookmark stands for Bookmark.
	WriteBookmark
	// WriteLack says that an object exists and cannot be had, because it cannot
	// be decoded or transformed: what is held under its key stays, and the
	// resource version stays before it until the key is stored, deleted or
	// replaced.
	WriteLack
)

// String returns the name of the method, or "Lack".
func (t WriteType) String() string {
	names := [...]string{WriteAdd: "Add", WriteUpdate: "Update", WriteDelete: "Delete", WriteDeleteKey: "DeleteKey", WriteBookmark: "Bookmark", WriteLack: "Lack"}
	if t == 0 || int(t) >= len(names) {
		return fmt.Sprintf("WriteType(%d)", uint8(t))
	}
	return names[t]
}

// Write is one write of a [Batch].
type Write[T any] struct {
	Type WriteType

	// Object is what is added or updated, or the last state of what is deleted.
	Object T

	// Key is what DeleteKey removes. Beside an Object it is as in [Identity].
	Key Key

	// Version is as in [Identity]. For a Bookmark it has the resource version,
	// for a DeleteKey that of the deletion, if it is known.
	Version Version

	// Left says of a Delete or a DeleteKey that the object goes on to exist: see
	// [Change]. What a Delete has as its last state is then none.
	Left bool

	// Rejection is what cannot be had; nil but for Lack.
	Rejection *Rejection
}

// rejection returns what a Lack says, which by itself says no more than the key.
func (w *Write[T]) rejection() Rejection {
	if w.Rejection == nil {
		return Rejection{Key: w.Key, Version: w.Version, Err: ErrNoWrite}
	}
	return *w.Rejection
}

// Add appends an Add.
func (b *Batch[T]) Add(object T) { b.Append(Write[T]{Type: WriteAdd, Object: object}) }

// Update appends an Update.
func (b *Batch[T]) Update(object T) { b.Append(Write[T]{Type: WriteUpdate, Object: object}) }

// Delete appends a Delete.
func (b *Batch[T]) Delete(object T) { b.Append(Write[T]{Type: WriteDelete, Object: object}) }

// DeleteKey appends a DeleteKey.
func (b *Batch[T]) DeleteKey(key Key) { b.Append(Write[T]{Type: WriteDeleteKey, Key: key}) }

// Bookmark appends a Bookmark.
func (b *Batch[T]) Bookmark(resourceVersion string) {
	b.Append(Write[T]{Type: WriteBookmark, Version: Version{ResourceVersion: resourceVersion}})
}

// Lack appends that an object exists and cannot be had: see [WriteLack].
func (b *Batch[T]) Lack(rejection Rejection) {
	b.Append(Write[T]{Type: WriteLack, Rejection: &rejection})
}

// Append appends a write.
func (b *Batch[T]) Append(w Write[T]) { b.writes = append(b.writes, w) }

// Len returns the number of writes.
func (b *Batch[T]) Len() int { return len(b.writes) }

// batchOf returns a batch of one write.
func batchOf[T any](w Write[T]) *Batch[T] { return &Batch[T]{writes: []Write[T]{w}} }

// All iterates over the writes, in order.
func (b *Batch[T]) All() iter.Seq[Write[T]] {
	return func(yield func(Write[T]) bool) {
		for _, w := range b.writes {
			if !yield(w) {
				return
			}
		}
	}
}

// Reset empties the batch and keeps its memory for the next one. A Store that
// took the batch does not hold on to it.
func (b *Batch[T]) Reset() {
	clear(b.writes)
	b.writes = b.writes[:0]
}

// Batches returns a store's own way to take batches if it has one, and else one
// that makes each write by itself. Such a one cannot be without an object: what follows
// one in a batch that cannot be had is refused with a [*RefusedError], and so is
// the whole of a list with one, or with unchanged objects, of which its Holds says
// that there are none. A version that is told
// beside an object is told to it as a Bookmark after the write, if the object does
// not say it itself; keys are not.
//
// A store that embeds one with batches, and overrides some of its methods, is
// treated as one without: its methods are all called.
func Batches[T any](s Store[T]) BatchStore[T] {
	if b, ok := s.(BatchStore[T]); ok && b.Itself() == s {
		return b
	}
	return singly[T]{s}
}

// ErrNoWrite means that a batch has a [Write] without a known type, or a Lack
// without a [Rejection].
var ErrNoWrite = errors.New("write in a batch without a known type or a rejection: use the methods of store.Batch")

// singly makes the writes of a batch one by one.
type singly[T any] struct{ Store[T] }

func (s singly[T]) Apply(batch *Batch[T]) error {
	var rejections []Rejection
	var errs []error
	writes := batch.list()
	for i := range writes {
		w := &writes[i]
		err := s.write(w)
		if rejected, ok := err.(*RejectedError); ok {
			rejections = append(rejections, rejected.Rejections...)
		} else {
			errs = append(errs, err)
		}
		if w.Type == WriteLack && i < len(writes)-1 {
			// Nothing here would keep the resource version before it.
			errs = append(errs, &RefusedError{Rejections: []Rejection{w.rejection()}})
			break
		}
	}
	return failure(rejections, errors.Join(errs...))
}

func (s singly[T]) write(w *Write[T]) error {
	switch w.Type {
	case WriteAdd:
		return s.moved(w, s.Add(w.Object))
	case WriteUpdate:
		return s.moved(w, s.Update(w.Object))
	case WriteDelete:
		return s.moved(w, s.Delete(w.Object))
	case WriteDeleteKey:
		return s.moved(w, s.DeleteKey(w.Key))
	case WriteBookmark:
		return s.Bookmark(w.Version.ResourceVersion)
	case WriteLack:
		return rejectedError([]Rejection{w.rejection()})
	}
	return rejectedError([]Rejection{{Key: w.Key, Err: ErrNoWrite}})
}

// moved tells the resource version of a write that was made, if what was written
// does not.
func (s singly[T]) moved(w *Write[T], err error) error {
	version := w.Version.ResourceVersion
	if err != nil || version == "" || knownVersion(w.Object).ResourceVersion == version {
		return err
	}
	return s.Bookmark(version)
}

func (s singly[T]) ReplaceAll(l Listing[T]) error {
	rejections := l.Lacking
	for _, key := range l.Unchanged {
		// Replace would delete it.
		rejections = append(rejections[:len(rejections):len(rejections)], Rejection{Key: key, Err: ErrNotHeld})
	}
	if len(rejections) > 0 {
		return &RefusedError{Rejections: rejections}
	}
	return s.Replace(l.Objects, l.ResourceVersion)
}

func (s singly[T]) Holds(Key, Version) bool { return false }

func (s singly[T]) Itself() Store[T] { return s.Store }
