package persist

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubereflector/kubereflector/store"
)

// secretNames are the type names of Secrets and of lists of them. isSecretType compares names, so
// that this package does not import k8s.io/api/core/v1.
var secretNames = []string{"Secret", "SecretList"}

const core = "k8s.io/api/core/v1"

// isSecretType reports whether a type is a Secret, a pointer to one, or a generic type with Secrets
// as an argument, such as the metadata of Secrets.
func isSecretType(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, name := range secretNames {
		if t.PkgPath() == core && t.Name() == name || strings.Contains(t.Name(), "["+core+"."+name+"]") {
			return true
		}
	}
	return false
}

// withoutSecrets rejects Secrets. Without the name of a resource, it also rejects objects that may
// be Secrets.
func withoutSecrets[T any](keyOf store.KeyFunc[T], resource string) store.KeyFunc[T] {
	dynamic := reflect.TypeFor[T]().Kind() == reflect.Interface
	return func(object T) (store.Key, error) {
		key, err := keyOf(object)
		if err != nil {
			return key, err
		}
		if dynamic && isSecretType(reflect.TypeOf(object)) {
			return key, fmt.Errorf("%q: %w", key, ErrSecret)
		}
		// Objects without a Go type of their own have a kind. So does metadata, whose annotations
		// may repeat the secret values.
		if o, ok := any(object).(interface{ GetObjectKind() schema.ObjectKind }); ok {
			kind := o.GetObjectKind().GroupVersionKind()
			if kind.Group == "" && kind.Kind == "Secret" {
				return key, fmt.Errorf("%q: %w", key, ErrSecret)
			}
			if resource == "" && kindless(object, kind.Kind) {
				return key, fmt.Errorf("%q: %w", key, ErrKindUnknown)
			}
		}
		return key, nil
	}
}

// kindless reports whether the kind of an object is unknown. Items of a list do not repeat their
// kind, and the server gives metadata the kind PartialObjectMetadata.
func kindless(object any, kind string) bool {
	switch object.(type) {
	case *unstructured.Unstructured:
		return kind == ""
	case *metav1.PartialObjectMetadata:
		return kind == "" || kind == "PartialObjectMetadata"
	}
	return false
}

// withShortKeys rejects objects whose keys are too long for a file.
func withShortKeys[T any](keyOf store.KeyFunc[T]) store.KeyFunc[T] {
	return func(object T) (store.Key, error) {
		key, err := keyOf(object)
		if err == nil && len(key.Cluster)+len(key.Namespace)+len(key.Name) > MaxKeyLength {
			return key, fmt.Errorf("%w: it has more than %d bytes", ErrKeyTooLong, MaxKeyLength)
		}
		return key, err
	}
}
