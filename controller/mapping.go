package controller

import (
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Owner returns a mapping for [Watch]: from an object to the one that controls it, if
// that is of the given kind, as [metav1.NewControllerRef] says it. The version of the
// kind does not matter. The owner is in the namespace of the object: for owners that are
// in none, write a function.
func Owner[S metav1.Object](kind schema.GroupKind) func(S) []store.Key {
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

// Labelled returns a mapping for [Watch]: from an object to the one in its namespace
// whose name is the value of a label.
func Labelled[S metav1.Object](label string) func(S) []store.Key {
	return func(object S) []store.Key {
		name := object.GetLabels()[label]
		if name == "" {
			return nil
		}
		return []store.Key{{Namespace: object.GetNamespace(), Name: name}}
	}
}

// Indexed returns a mapping for [Watch]: from an object to all those that have a value
// in common with it in an index of the primary cache, such as to all that name it. It
// finds those that are in the cache when the object changes; one that comes later is
// reconciled because it came.
func Indexed[S, T any, I comparable](index *store.Index[I, T], values func(S) []I) func(S) []store.Key {
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

// SpecChanged is a predicate for [Watch] and [Reconciler.Only] that refuses
// modifications that only touched the status or the metadata: those that left the
// generation as it was. It accepts the beginning of a deletion, and resyncs. It is of
// no use for kinds without a generation, such as ConfigMaps.
func SpecChanged[S metav1.Object](event eventqueue.Event[S]) bool {
	if event.Type != eventqueue.Modification || event.Origin == eventqueue.Resync {
		return true
	}
	return event.Prior.GetGeneration() != event.Object.GetGeneration() ||
		event.Prior.GetUID() != event.Object.GetUID() ||
		(event.Prior.GetDeletionTimestamp() == nil) != (event.Object.GetDeletionTimestamp() == nil)
}
