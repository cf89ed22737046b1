package fleet

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrNotWanted means that nobody wants a kind in the form and the namespaces that a reader asks for.
var ErrNotWanted = errors.New("kind is not wanted in this form: call Want first")

// Get returns the object of a kind that a cache of the fleet holds, for readers that know the kind only
// by name. T is the form in which somebody wants the kind, such as [*unstructured.Unstructured]. A kind
// without a version is read in any version that somebody wants.
//
// An object may come with an error, and is then the last known one: the kind is not served, the watch is
// broken, or the cache is not filled, as [informer.Informer.Ready] says. So no object and an error does not
// mean that there is none. If nobody wants the kind in this form, in all namespaces or in that of the key, and
// without selectors, the error is [ErrNotWanted]. All readers share the object: copy it before you change it.
func Get[T reflector.Object](f *Fleet, kind schema.GroupVersionKind, key store.Key) (object T, found bool, err error) {
	from, err := informerOf[T](f, kind, key.Namespace)
	if err != nil {
		return object, false, err
	}
	object, found = from.Cache().Get(key)
	return object, found, from.Ready()
}

// List returns the objects of a kind in a namespace, or in all of them if it is empty. It is otherwise
// like [Get]: the objects come with an error that says why the cache may be outdated.
func List[T reflector.Object](f *Fleet, kind schema.GroupVersionKind, namespace string) ([]T, error) {
	from, err := informerOf[T](f, kind, namespace)
	if err != nil {
		return nil, err
	}
	all := from.Cache().All()
	if namespace != "" {
		all = from.Cache().Namespace(namespace)
	}
	var objects []T
	for _, object := range all {
		objects = append(objects, object)
	}
	return objects, from.Ready()
}

// informerOf returns an informer that has all objects of a kind in a namespace.
func informerOf[T reflector.Object](f *Fleet, kind schema.GroupVersionKind, namespace string) (*informer.Informer[T], error) {
	id := identity{form: reflect.TypeFor[T]()}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id.namespace = range []string{"", namespace} {
		id.kind = kind
		if m := f.members[id]; m != nil {
			return m.informer.(*informer.Informer[T]), nil
		}
		for other, m := range f.members {
			id.kind = other.kind
			if other != id || other.kind.GroupKind() != kind.GroupKind() {
				continue
			}
			if kind.Version == "" || other.kind.Version == "" && m.workingResolution().resource.Version == kind.Version {
				return m.informer.(*informer.Informer[T]), nil
			}
		}
	}
	return nil, fmt.Errorf("%s: %w", kind, ErrNotWanted)
}
