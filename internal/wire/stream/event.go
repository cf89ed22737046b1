package stream

import (
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is the metadata of a Kubernetes object, which the reflector needs. Object omits
// comparable, so that one piece of machine code serves all pointer types.
type Object interface {
	metav1.Object
}

// Event is a watch event in the reflector's own form.
type Event[T Object] struct {
	Type            watch.EventType
	ResourceVersion string // of the object, or of the bookmark
	Object          T
	Hash            uint64 // of the bytes of Object; 0 if unknown
	// Rejection replaces an object that could not be decoded.
	Rejection *store.Rejection
	// Held replaces objects that the store already holds with the same content.
	Held []store.Key
	// OutOfShard counts the objects outside the shards that this event replaces. Left is such an
	// object that the store may still hold.
	OutOfShard       int
	Left             *Departure
	Key              store.Key
	InitialEventsEnd bool // the bookmark ends the initial events
	// Err makes the watch unusable. It concerns the object under Key, if the key is known. If Cut
	// is true, Err only explains the end of the watch.
	Err error
	Cut bool
}

// IsChange reports whether an event is a change of an object.
func (e *Event[T]) IsChange() bool {
	return e.Err == nil && !e.Cut && e.Type != watch.Bookmark
}

// MarkOut replaces an event with one for an object outside the shards.
func (e *Event[T]) MarkOut(s *Shards, key store.Key, version store.Version) {
	*e = Event[T]{Type: e.Type, ResourceVersion: version.ResourceVersion, OutOfShard: 1}
	if s.Moves() && key.Name != "" {
		e.Left = &Departure{Key: key, Version: version, Deleted: e.Type == watch.Deleted}
	}
}

// Departure describes an object outside the shards that may have been inside before.
type Departure struct {
	Key     store.Key
	Version store.Version
	Deleted bool // it was deleted
}

// Filter replaces an event whose object is outside the shards: see [Event.MarkOut].
func (e *Event[T]) Filter(s *Shards) {
	if s == nil || e.Err != nil || e.Cut || e.Held != nil || e.OutOfShard > 0 || e.Type == watch.Bookmark {
		return
	}
	if e.Rejection != nil {
		// The identity of a rejected object tells only its shard by UID or by namespace.
		if s.By == store.ByUID && e.Rejection.Version.UID != "" && !s.Contains(store.ShardHash(string(e.Rejection.Version.UID))) ||
			s.By == store.ByNamespace && e.Rejection.Key.Name != "" && !s.Contains(store.ShardHash(e.Rejection.Key.Namespace)) {
			e.MarkOut(s, e.Rejection.Key, e.Rejection.Version)
		}
		return
	}
	if !s.Has(e.Object) {
		e.MarkOut(s, store.Key{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()},
			store.Version{UID: types.UID(e.Object.GetUID()), ResourceVersion: e.Object.GetResourceVersion()})
	}
}
