package store

import "iter"

// Store is what a reflector fills: the write side of a [Cache], of an
// event-queue collection, of a decorator, or of something of your own.
//
// A reflector calls it from one goroutine at a time, in the order in which the
// API server reported the changes. An implementation that other goroutines
// reach as well must do its own locking.
//
// The object that a method is given belongs to the Store from then on and is
// not changed any more by the caller. Methods that return an error have not
// stored the objects that the error names; see [RejectedError] for the one
// error that says some were stored and some not.
type Store[T any] interface {
	// Add stores an object that appeared. If one is held under its key
	// already, the new one takes its place.
	Add(object T) error

	// Update stores an object that changed. If none is held under its key, it
	// is added.
	Update(object T) error

	// Delete removes the object held under the key of the given one, which is
	// the last state that the object had. If none is held, no object changes;
	// the resource version of the deletion counts all the same.
	Delete(object T) error

	// DeleteKey removes the object held under a key. It is for a deletion whose last state is unknown
	// or cannot be decoded. It does nothing if no object is held, and never moves the resource version.
	DeleteKey(key Key) error

	// Replace makes the given objects the content of the store. The list that the
	// objects come from has the given resource version. It may be lower than
	// before, if the server was restored from a backup. If the store then rejects
	// an object, its resource version becomes empty. If two objects have one key,
	// the store uses only the later one, even if it rejects that one. An object
	// with the same UID and resource version stays unchanged.
	Replace(objects []T, resourceVersion string) error

	// Bookmark reports progress: the store has received every change up to the
	// given resource version.
	Bookmark(resourceVersion string) error

	// ResourceVersion returns the resource version up to which the store is
	// complete, from which a watch can be resumed: that of the last object
	// stored or deleted, of the last Replace, or of the last Bookmark. It is
	// empty before the first Replace: until then the store may lack objects.
	// An object or a bookmark without a version does not move it.
	ResourceVersion() string
}

// Reader is the read side of a [Cache]. Every method may be called from any
// goroutine and answers from one committed state.
type Reader[T any] interface {
	// Get returns the object held under a key, and whether there is one.
	Get(key Key) (T, bool)

	// All iterates over all objects in the order of their keys.
	All() iter.Seq2[Key, T]

	// Namespace iterates over the objects of one namespace in the order of
	// their keys; in every cluster, if the keys have clusters. The empty
	// namespace holds the objects that live in none.
	Namespace(namespace string) iter.Seq2[Key, T]

	// Len returns the number of objects.
	Len() int

	// ResourceVersion returns the resource version of the state that is being
	// read: see [Store].
	ResourceVersion() string
}

// Resumer is a [Store] that wants to know when it is in touch with the server: one
// that was filled by an earlier process is stale until then. A reflector calls
// Resumed when the server accepted a watch from the store's resource version, so
// that no list comes. The decorators hand it on.
type Resumer interface{ Resumed() }
