package eventqueuetest

import (
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/eventqueue"
)

// Want describes one expected event. The zero Want matches any event.
type Want[T any] struct {
	words string
	is    func(eventqueue.Event[T]) bool
}

// String describes the expected event.
func (w Want[T]) String() string {
	if w.is == nil {
		return "any event"
	}
	return w.words
}

func (w Want[T]) met(e eventqueue.Event[T]) bool { return w.is == nil || w.is(e) }

// Added wants the addition of an object that is deeply equal to the given one.
func Added[T any](object T) Want[T] {
	return Want[T]{fmt.Sprintf("addition of %+v", object), func(e eventqueue.Event[T]) bool {
		return e.Type == eventqueue.Addition && reflect.DeepEqual(e.Object, object)
	}}
}

// Modified wants the modification of one object into another, each deeply equal to the
// given one.
func Modified[T any](prior, object T) Want[T] {
	return Want[T]{fmt.Sprintf("modification of %+v to %+v", prior, object), func(e eventqueue.Event[T]) bool {
		return e.Type == eventqueue.Modification && reflect.DeepEqual(e.Prior, prior) && reflect.DeepEqual(e.Object, object)
	}}
}

// Deleted wants the deletion of an object whose last known state is deeply equal to the
// given one.
func Deleted[T any](object T) Want[T] {
	return Want[T]{fmt.Sprintf("deletion of %+v", object), func(e eventqueue.Event[T]) bool {
		return e.Type == eventqueue.Deletion && reflect.DeepEqual(e.Object, object)
	}}
}

// OfType wants an event of a type, whatever its objects.
func OfType[T any](wanted eventqueue.Type) Want[T] {
	return Want[T]{fmt.Sprintf("any %v", wanted), func(e eventqueue.Event[T]) bool { return e.Type == wanted }}
}

// Where wants an event for which a function returns true. Errors show words for it.
func Where[T any](words string, is func(eventqueue.Event[T]) bool) Want[T] {
	return Want[T]{words, is}
}
