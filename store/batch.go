package store

import "errors"

// BatchStore is a [Store] that commits many writes at once. [Begin] starts a batch of any Store.
type BatchStore[T any] interface {
	Store[T]

	// BeginBatch returns an empty batch, or nil if self is not the receiver. A type that embeds a
	// BatchStore and overrides its Add inherits BeginBatch, which must not bypass that Add.
	BeginBatch(self Store[T], replace bool) Batch[T]

	// Has reports whether the store holds an object under a key at a version. It is false for a
	// version without a UID or a resource version. It is safe for concurrent use.
	Has(key Key, version Version) bool
}

// Batch gathers writes of a [Store] that become visible at once. It belongs to one goroutine; other
// goroutines may read and write the store meanwhile. After Commit or Discard it is empty, and the
// caller can use it again.
type Batch[T any] interface {
	// Write adds a write. If a batch has several writes of one key, a batch of a watch makes each,
	// and a batch that replaces everything makes the last. An error ends the batch: Commit returns
	// it as well.
	Write(w Write[T]) error

	// Keep says that a list has an object at the version that the store holds: see Has. Commit
	// rejects the key with [ErrNotHeld] if the store does not hold it any more. A batch of a
	// watch ignores it.
	Keep(key Key)

	// Commit makes the writes. The batch contains every change up to resourceVersion: the version
	// of the list, or of the last event. If resourceVersion is empty in a batch of a watch, Commit
	// uses the version of the last write. The store's version follows, but never passes a rejected
	// object. Commit stores all valid objects and returns the others in a [*RejectedError].
	Commit(resourceVersion string) error

	// Discard forgets the writes. It does nothing after Commit.
	Discard()
}

// Write is one write of a [Batch].
type Write[T any] struct {
	// Type is Addition or Modification, which mean the same, or Deletion. In a batch that replaces
	// everything, a Deletion takes an earlier write of the key back.
	Type ChangeType

	// Object is the new state of the object. For a Deletion with FinalStateKnown, it is the last
	// state.
	Object T

	// FinalStateKnown says that the Object of a Deletion is its last state. Without it, the store
	// uses only the Key.
	FinalStateKnown bool

	// Key is the expected key of Object. The store rejects an object with another key with
	// [ErrBadKey]. With the zero Key, the store derives the key. The store rejects an object under
	// this key, and makes a Deletion under it, whatever the last state is.
	Key Key

	// Version is the version of Object, for an object without metadata, such as a transformed
	// object. For a Deletion it is the version of the deletion.
	Version Version

	// OutOfScope says of a Deletion that the object still exists on the server: see [Change].
	OutOfScope bool

	// Err says that the object exists, but could not be decoded or transformed. The store ignores
	// Type and Object, and keeps its object under Key. Its resource version stays before the
	// rejected object. With a zero Key, the store keeps its object with the UID of Version.
	Err error
}

// rejection returns the rejection for a write with an Err.
func (w *Write[T]) rejection() Rejection {
	return Rejection{Key: w.Key, Version: w.Version, Err: w.Err}
}

// Begin starts a batch of a store: one or more events of a watch, or, if replace is true, a list
// that becomes the content of the store.
//
// A plain [Store], and a store that embeds a [BatchStore] without its own BeginBatch, gets an
// adapter. The adapter calls Add, Update, Delete, DeleteKey, Replace and Bookmark, and own is
// false. Write the events of a watch to the adapter one at a time, so that each error belongs to
// its object. A plain Store deletes each object that Replace omits. So Commit of a list with a
// Write.Err or a Keep stores nothing, and returns an error that is no [*RejectedError]. In a batch
// of a watch, Commit stops at a Write.Err. If another write or a resource version follows, Commit
// adds such an error.
func Begin[T any](s Store[T], replace bool) (b Batch[T], own bool) {
	if batches, ok := s.(BatchStore[T]); ok {
		if b := batches.BeginBatch(s, replace); b != nil {
			return b, true
		}
	}
	return &plainBatch[T]{to: s, replace: replace}, false
}

// errNoWrite means that a [Write] has neither an Err nor a known Type.
var errNoWrite = errors.New("write without a known type: set Type to Addition, Modification or Deletion")

// plainBatch makes the writes of a batch one by one.
type plainBatch[T any] struct {
	to      Store[T]
	replace bool
	writes  []Write[T]
}

func (b *plainBatch[T]) Write(w Write[T]) error {
	b.writes = append(b.writes, w)
	return nil
}

// Keep rejects the key, which Replace would delete.
func (b *plainBatch[T]) Keep(key Key) {
	if b.replace {
		b.writes = append(b.writes, Write[T]{Key: key, Err: ErrNotHeld})
	}
}

func (b *plainBatch[T]) Discard() { *b = plainBatch[T]{to: b.to, replace: b.replace} }

func (b *plainBatch[T]) Commit(resourceVersion string) error {
	defer b.Discard()
	if b.replace {
		return b.commitList(resourceVersion)
	}
	var rejections []Rejection
	var errs []error
	for i := range b.writes {
		w := &b.writes[i]
		err := b.write(w)
		if rejected, ok := err.(*RejectedError); ok {
			rejections = append(rejections, rejected.Rejections...)
		} else {
			errs = append(errs, err)
		}
		if w.Err == nil {
			continue
		}
		if i < len(b.writes)-1 || resourceVersion != "" {
			// The adapter could not keep the resource version before the object.
			errs = append(errs, refusedError([]Rejection{w.rejection()}))
		}
		return errors.Join(rejectedError(rejections), errors.Join(errs...))
	}
	if resourceVersion != "" && (len(b.writes) == 0 || b.writes[len(b.writes)-1].version() != resourceVersion) {
		errs = append(errs, b.to.Bookmark(resourceVersion))
	}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(rejectedError(rejections), err)
	}
	return rejectedError(rejections)
}

// version returns the known resource version of a write.
func (w *Write[T]) version() string {
	if w.Version.ResourceVersion != "" || w.Type == Deletion && !w.FinalStateKnown {
		return w.Version.ResourceVersion
	}
	return knownVersion(w.Object).ResourceVersion
}

func (b *plainBatch[T]) write(w *Write[T]) error {
	var err error
	switch {
	case w.Err != nil:
		return rejectedError([]Rejection{w.rejection()})
	case w.Type == Addition:
		err = b.to.Add(w.Object)
	case w.Type == Modification:
		err = b.to.Update(w.Object)
	case w.Type == Deletion && w.FinalStateKnown:
		err = b.to.Delete(w.Object)
	case w.Type == Deletion:
		err = b.to.DeleteKey(w.Key)
	default:
		return rejectedError([]Rejection{{Key: w.Key, Err: errNoWrite}})
	}
	version := w.Version.ResourceVersion
	if err != nil || version == "" || w.Type != Deletion && knownVersion(w.Object).ResourceVersion == version {
		return err
	}
	return b.to.Bookmark(version)
}

func (b *plainBatch[T]) commitList(resourceVersion string) error {
	last := make(map[Key]int, len(b.writes)) // the last write of each key
	for i := range b.writes {
		last[b.keyOf(&b.writes[i])] = i
	}
	var rejections []Rejection
	objects := make([]T, 0, len(b.writes))
	for i := range b.writes {
		w := &b.writes[i]
		if key := b.keyOf(w); key != (Key{}) && last[key] != i {
			continue
		}
		switch {
		case w.Err != nil:
			rejections = append(rejections, w.rejection())
		case w.Type == Addition || w.Type == Modification:
			objects = append(objects, w.Object)
		case w.Type != Deletion:
			rejections = append(rejections, Rejection{Key: w.Key, Err: errNoWrite})
		}
	}
	if len(rejections) > 0 {
		return refusedError(rejections)
	}
	return b.to.Replace(objects, resourceVersion)
}

// keyOf returns the key of a write, or the zero Key if it is unknown.
func (b *plainBatch[T]) keyOf(w *Write[T]) Key {
	if w.Key != (Key{}) || w.Err != nil || w.Type == Deletion && !w.FinalStateKnown {
		return w.Key
	}
	keyOf := func(object T) (Key, error) {
		if named, ok := any(object).(Object); ok {
			return ObjectKey(named)
		}
		return Key{}, errNoName
	}
	if keyed, ok := b.to.(interface{ KeyOf(T) (Key, error) }); ok {
		keyOf = keyed.KeyOf
	}
	key, _, _ := identify(keyOf, false, w.Object)
	return key
}

// watchBatch gathers events of a watch for a cache or a part of it.
type watchBatch[T any] struct {
	of     *Partition[T]
	writes []Write[T]
}

func (b *watchBatch[T]) Write(w Write[T]) error {
	b.writes = append(b.writes, w)
	return nil
}

func (b *watchBatch[T]) Keep(Key) {}

func (b *watchBatch[T]) Commit(resourceVersion string) error {
	defer b.Discard()
	return b.of.apply(b.writes, resourceVersion)
}

func (b *watchBatch[T]) Discard() { b.writes = recycle(b.writes) }

// BeginBatch implements [BatchStore].
func (p *Partition[T]) BeginBatch(self Store[T], replace bool) Batch[T] {
	switch {
	case self != Store[T](p):
		return nil
	case replace:
		return newReplace(p, true, 0)
	}
	return &watchBatch[T]{of: p}
}

// Has implements [BatchStore].
func (p *Partition[T]) Has(key Key, version Version) bool {
	key, err := p.normalize(key)
	if err != nil {
		return false
	}
	held, ok := p.of.held(key)
	return ok && held.Equal(version)
}
