package store

import (
	"errors"
	"iter"
)

// Store is the write side of a [Cache], of an event-queue collection, of a Transform of package decorate, or of your
// own implementation. A reflector fills it.
//
// A reflector calls it from one goroutine at a time, in the order in which the API server reported
// the changes. An implementation that other goroutines use as well must lock by itself.
//
// The caller must not change an object after it passed the object to a method. A method that
// returns an error has not stored the objects that the error names. A [RejectedError] means that
// the store stored some objects and rejected others.
//
// A store that an earlier process filled is stale until its reflector has reached the server. Such
// a store may be a decorate.Resumer: a reflector calls its method Resumed when the server accepts a
// watch from the store's resource version, because no list follows. A decorate.Transform passes the call on.
type Store[T any] interface {
	// Add stores an object that appeared. It replaces an object that the store holds under the key.
	Add(object T) error

	// Update stores an object that changed. It adds the object if the store holds none under the
	// key.
	Update(object T) error

	// Delete removes the object under the key of the given object, which is the last state of the
	// deleted object. If the store holds no object there, Delete still advances the resource
	// version to the version of the deletion.
	Delete(object T) error

	// DeleteKey removes the object under a key. It is for a deletion whose last state is unknown or
	// cannot be decoded. If the store holds no object there, it only ends a rejection of the key. It
	// never moves the resource version.
	DeleteKey(key Key) error

	// Replace makes the given objects the content of the store. resourceVersion is the version of
	// the list that the objects come from. It may be lower than before, if the server was restored
	// from a backup. If the store then rejects an object, its resource version becomes empty. If
	// two objects have one key, the store uses only the later one, even if it rejects that one. An
	// object with the same UID, resource version and content stays unchanged.
	Replace(objects []T, resourceVersion string) error

	// Bookmark reports progress: the caller has written every change up to the given resource
	// version.
	Bookmark(resourceVersion string) error

	// ResourceVersion returns the version up to which the store is complete, and from which a watch
	// can resume. It is the version of the last stored or deleted object, of the last Replace, or
	// of the last Bookmark. It is empty before the first Replace, because the store may lack
	// objects until then. An object or a bookmark without a version does not move it.
	ResourceVersion() string
}

// BatchStore is a [Store] that commits many writes at once. The function Begin of package decorate
// starts a batch of any Store.
type BatchStore[T any] interface {
	Store[T]

	// BeginBatch returns an empty batch. The caller passes the store that it holds as self. If self is
	// not the receiver, the receiver is embedded in another type, whose own Add a batch must not bypass:
	// then BeginBatch returns nil, and the caller calls the methods of self one by one.
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
	// uses only the Key; a Cache that holds nothing under it uses the UID of Version, if that is known.
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
	// rejected object. In a list, the store also keeps its object with the UID of Version.
	Err error
}

// errNoWrite means that a [Write] has neither an Err nor a known Type.
var errNoWrite = errors.New("write without a known type: set Type to Addition, Modification or Deletion")

// Reader is the read side of a [Cache]. All methods are safe for concurrent use. Each read sees one
// committed state.
type Reader[T any] interface {
	// Get returns the object under a key, and whether there is one.
	Get(key Key) (T, bool)

	// All iterates over all objects in the order of their keys.
	All() iter.Seq2[Key, T]

	// Namespace iterates over the objects of one namespace in the order of their keys. If keys have
	// clusters, it iterates over the namespace in every cluster. The empty namespace holds the
	// objects that belong to no namespace.
	Namespace(namespace string) iter.Seq2[Key, T]

	// Len returns the number of objects.
	Len() int

	// ResourceVersion returns the resource version of the state that the Reader reads: see [Store].
	ResourceVersion() string
}
