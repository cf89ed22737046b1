package source

import (
	"errors"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var (
	// ErrNoClient means that the program made a reflector with a nil client.
	ErrNoClient = errors.New("reflector has no client: pass one to New, such as clientset.CoreV1().Pods(namespace)")

	ErrNoWatch = errors.New("client returned neither a watch nor an error")
	ErrNoList  = errors.New("client returned neither a list nor an error")
	ErrNoGet   = errors.New("client cannot get single objects")
)

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

// IsTable reports whether an object is a Table, in any Go type.
func IsTable(object any) bool {
	o, ok := object.(runtime.Object)
	if !ok || IsNil(o) {
		return false
	}
	kind := o.GetObjectKind().GroupVersionKind()
	return kind.Kind == "Table" && kind.Group == metav1.GroupName
}
