package persist

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubereflector/kubereflector/store"
)

// isSecretType reports whether a type is that of Secrets, or a pointer to it. It goes
// by names, so that not every program has all types of k8s.io/api/core/v1.
func isSecretType(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == "k8s.io/api/core/v1" && (t.Name() == "Secret" || t.Name() == "SecretList")
}

// withoutSecrets rejects Secrets.
func withoutSecrets[T any](keyOf store.KeyFunc[T]) store.KeyFunc[T] {
	dynamic := reflect.TypeFor[T]().Kind() == reflect.Interface
	return func(object T) (store.Key, error) {
		key, err := keyOf(object)
		if err != nil {
			return key, err
		}
		if dynamic && isSecretType(reflect.TypeOf(object)) {
			return key, fmt.Errorf("%q: %w", key, ErrSecret)
		}
		// Objects without a Go type of their own, and metadata alone, whose annotations
		// may repeat what is secret, say what they are.
		if o, ok := any(object).(interface{ GetObjectKind() schema.ObjectKind }); ok {
			if kind := o.GetObjectKind().GroupVersionKind(); kind.Group == "" && kind.Kind == "Secret" {
				return key, fmt.Errorf("%q: %w", key, ErrSecret)
			}
		}
		return key, nil
	}
}

// withShortKeys rejects what has no place in a file.
func withShortKeys[T any](keyOf store.KeyFunc[T]) store.KeyFunc[T] {
	return func(object T) (store.Key, error) {
		key, err := keyOf(object)
		if err == nil && len(key.Cluster)+len(key.Namespace)+len(key.Name) > MaxKeyLength {
			return key, fmt.Errorf("%w: it has more than %d bytes", ErrKeyTooLong, MaxKeyLength)
		}
		return key, err
	}
}
