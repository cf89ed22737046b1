package reconcile

import (
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OwnerKeys returns the mapping of [Owns], from an object to its controlling owner, as
// [metav1.NewControllerRef] sets it, if the owner is of the given kind. The version of the kind
// does not matter. The mapping returns the namespace of the object; the reconciler drops it if its
// primary objects have none.
func OwnerKeys[S metav1.Object](kind schema.GroupKind) func(S) []store.Key {
	return func(object S) []store.Key {
		ref := metav1.GetControllerOfNoCopy(object)
		if ref == nil || ref.Kind != kind.Kind {
			return nil
		}
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil || version.Group != kind.Group {
			return nil
		}
		return []store.Key{{Namespace: object.GetNamespace(), Name: ref.Name}}
	}
}

const (
	unknownScope = iota
	namespaced
	clusterScoped
)

// scopeOf returns the scope of the kind whose object has a key.
func scopeOf(key store.Key) int32 {
	if key.Namespace == "" {
		return clusterScoped
	}
	return namespaced
}

// inScope returns the key without its namespace if the primary objects have no namespaces. A mapping
// sees only the secondary object, which may be in a namespace although its owner is not.
func (r *run) inScope(key store.Key) store.Key {
	if key.Namespace == "" || len(r.sources) == 0 {
		return key
	}
	// Objects say more than discovery: the kind may have been defined again with another scope.
	scope := r.scope.Load()
	if scope == clusterScoped || scope == unknownScope && r.sources[0].clusterScoped() {
		key.Namespace = ""
	}
	return key
}

// ByLabel returns a mapping for [Watch] from an object to the one that a label names: in its
// namespace, or without one if the primary objects have none.
func ByLabel[S metav1.Object](label string) func(S) []store.Key {
	return func(object S) []store.Key {
		name := object.GetLabels()[label]
		if name == "" {
			return nil
		}
		return []store.Key{{Namespace: object.GetNamespace(), Name: name}}
	}
}

// ByIndex returns a mapping for [Watch] from an object to all objects of the primary cache that
// share a value with it in an index, such as all objects that name it. It finds the objects that
// are in the cache when the object changes. An object that comes later is reconciled because of its
// own addition.
func ByIndex[S, T any, I comparable](index *store.Index[I, T], values func(S) []I) func(S) []store.Key {
	return func(object S) []store.Key {
		var keys []store.Key
		for _, value := range values(object) {
			for key := range index.Get(value) {
				keys = append(keys, key)
			}
		}
		return keys
	}
}

// GenerationChanged is a predicate for [Watch] and [Where]. It rejects modifications of only the
// status or the metadata, which keep the generation. It accepts the beginning of a deletion, and
// resyncs. It does not work for kinds without a generation, such as ConfigMaps. It also rejects an
// object that the server shows differently under the same generation and resource version, because
// its definition got a default or another conversion: so does every predicate that compares
// versions.
func GenerationChanged[S metav1.Object](event eventqueue.Event[S]) bool {
	if event.Type != eventqueue.Modification || event.Origin == eventqueue.Resync {
		return true
	}
	return event.Prior.GetGeneration() != event.Object.GetGeneration() ||
		event.Prior.GetUID() != event.Object.GetUID() ||
		(event.Prior.GetDeletionTimestamp() == nil) != (event.Object.GetDeletionTimestamp() == nil)
}
