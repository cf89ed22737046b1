package store

import "iter"

// Store is the write side of a [Cache], of an event-queue collection, of a decorator, or of your
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
// watch from the store's resource version, because no list follows. The decorators pass the call on.
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
	// cannot be decoded. It does nothing if the store holds no object there, and never moves the
	// resource version.
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
