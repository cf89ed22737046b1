package source

import (
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var (
	// ErrNoClient means that the program made a reflector with a nil client.
	ErrNoClient = errors.New("reflector has no client: pass one to New, such as clientset.CoreV1().Pods(namespace)")

	// ErrTable means that the server sent a Table, a format for display, instead of objects.
	ErrTable = errors.New("server sent a Table instead of objects: the client must not accept as=Table")

	ErrNoWatch = errors.New("client returned neither a watch nor an error")
	ErrNoList  = errors.New("client returned neither a list nor an error")
	ErrNoGet   = errors.New("client cannot get single objects")
)

// TypeError means that a watch event carried something other than an object of the reflector's
// type.
type TypeError struct {
	// Want and Got are Go types, such as "*v1.Pod".
	Want, Got string
}

// Error names both types.
func (e *TypeError) Error() string {
	return fmt.Sprintf("watch event carries a %s, want a %s", e.Got, e.Want)
}

func NewTypeError[T any](got runtime.Object) *TypeError {
	e := &TypeError{Want: reflect.TypeFor[T]().String(), Got: "nil"}
	if got != nil {
		e.Got = reflect.TypeOf(got).String()
		if IsNil(got) {
			e.Got = "nil " + e.Got
		}
	}
	return e
}

// EventTypeError means that a watch event has a type that this version of the library does not
// know.
type EventTypeError struct{ Type string }

// Error names the type.
func (e *EventTypeError) Error() string {
	return fmt.Sprintf("unknown type %q of a watch event", Cut(e.Type, 64))
}

// IsTable reports whether an object is a Table, in any Go type.
func IsTable(object any) bool {
	o, ok := object.(runtime.Object)
	if !ok || IsNil(o) {
		return false
	}
	kind := o.GetObjectKind().GroupVersionKind()
	return kind.Kind == "Table" && kind.Group == metav1.GroupName
}
