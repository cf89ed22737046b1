package store

import "errors"

// BatchStore is a [Store] that commits many writes at once. The function Begin of package decorate
// starts a batch of any Store.
type BatchStore[T any] interface {
	Store[T]

	// BeginBatch returns an empty batch, or nil if self is not the receiver. A type that embeds a
	// BatchStore and overrides its Add inherits BeginBatch, which must not bypass that Add.
	BeginBatch(self Store[T], replace bool) Batch[T]

	// Has reports whether the store holds an object under a key at a version, with the content that
	// has a hash: see Hash of [Write]. It is false without a UID, a resource version or a hash. It
	// is safe for concurrent use.
	Has(key Key, version Version, hash uint64) bool
}

// Batch gathers writes of a [Store] that become visible at once. It belongs to one goroutine; other
// goroutines may read and write the store meanwhile. After Commit or Discard it is empty, and the
// caller can use it again.
type Batch[T any] interface {
	// Write adds a write. If a batch has several writes of one key, a batch of a watch makes each,
	// and a batch that replaces everything makes the last. An error ends the batch: Commit returns
	// it as well.
	Write(w Write[T]) error

	// Keep says that a list has an object with the content that the store holds: see Has. Commit
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

	// Hash is a hash of the bytes that Object was read from, or 0 if there is none. A reflector
	// takes it over the object without the top-level kind and apiVersion, which lists omit, and
	// without managedFields if its client drops them. Within one process, objects with the same UID,
	// resource version and hash are the same.
	Hash uint64

	// Err says that the object exists, but could not be decoded or transformed. The store ignores
	// Type and Object, and keeps its object under Key. Its resource version stays before the
	// rejected object. With a zero Key, the store keeps its object with the UID of Version.
	Err error
}

// errNoWrite means that a [Write] has neither an Err nor a known Type.
var errNoWrite = errors.New("write without a known type: set Type to Addition, Modification or Deletion")

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
		return &replaceBatch[T]{of: p, streamed: true}
	}
	return &watchBatch[T]{of: p}
}

// Has implements [BatchStore].
func (p *Partition[T]) Has(key Key, version Version, hash uint64) bool {
	key, err := p.normalize(key)
	if err != nil {
		return false
	}
	p.of.trees.Lock() // because a commit changes entries under this lock
	defer p.of.trees.Unlock()
	return p.of.table.entry(key).is(version, hash)
}
