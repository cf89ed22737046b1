package stream

import (
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// OutOfShard counts the objects outside the shards that this event replaces.
	OutOfShard       int
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

// markOut replaces an event with one for an object outside the shards.
func (e *Event[T]) markOut(resourceVersion string) {
	*e = Event[T]{Type: e.Type, ResourceVersion: resourceVersion, OutOfShard: 1}
}

// Filter replaces an event whose object is outside the shards by one for such objects.
func (e *Event[T]) Filter(s *Shards) {
	if s == nil || e.Err != nil || e.Cut || e.Held != nil || e.OutOfShard > 0 || e.Type == watch.Bookmark {
		return
	}
	if e.Rejection != nil {
		// The identity of a rejected object tells only its shard by UID or by namespace.
		if s.By == store.ByUID && e.Rejection.Version.UID != "" && !s.Contains(store.ShardHash(string(e.Rejection.Version.UID))) ||
			s.By == store.ByNamespace && e.Rejection.Key.Name != "" && !s.Contains(store.ShardHash(e.Rejection.Key.Namespace)) {
			e.markOut(e.Rejection.Version.ResourceVersion)
		}
		return
	}
	if !s.Has(e.Object) {
		e.markOut(e.Object.GetResourceVersion())
	}
}
