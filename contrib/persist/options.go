package persist

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// The defaults of [Options].
	defaultDelay        = time.Second
	defaultMaxUnwritten = 16 << 20

	// defaultChunk is how many objects one transaction writes while the file has no complete list.
	defaultChunk = 4096
)

// Options configure a store. Most stores need only Resource and Cluster: set both, so that a
// program does not use the file of another.
type Options[T any] struct {
	// Resource names the content: the resource, with the namespace and the selectors of a part of
	// it, such as "pods in default with app=web". Open rejects a file with another name with a
	// [*MismatchError].
	Resource string

	// Cluster names the API server, for example by the UID of its namespace kube-system: a resource
	// version of one cluster means nothing in another. Open rejects a file with another name with a
	// [*MismatchError].
	Cluster string

	// Codec encodes the objects. The default is [Protobuf] for the types that it supports, and else
	// [JSON]. An interface type has no default.
	Codec Codec[T]

	// AllowSecrets allows the store to write Secrets to the disk, in clear text.
	AllowSecrets bool

	// Delay is the longest time from a change until the store begins to write it. Changes that come
	// meanwhile go into the same transaction. The default is a second; less than 0 means no
	// delay.
	Delay time.Duration

	// MaxUnwritten bounds the encoded size of the changes that are not in the file. The store
	// counts each change with the mean size of the records before it. Beyond the bound, writers to
	// the store wait. The store never splits a commit, so one commit may exceed the bound. The
	// default, for 0 or less, is 16 MiB.
	MaxUnwritten int

	// ErrorHandler is called with each failure to write, a [*FileError], from the goroutine that
	// writes. If the FileError wraps an [*EncodeError], the store wrote everything except for some
	// objects that cannot be encoded. The hook must be quick and must not write to the store; it
	// may close it. The default does nothing.
	ErrorHandler func(error)

	chunk int // defaultChunk, except in tests
}

func (o Options[T]) withDefaults() (Options[T], error) {
	if o.Codec == nil {
		codec, err := defaultCodec[T]()
		if err != nil {
			return o, err
		}
		o.Codec = codec
	}
	o.Delay, o.chunk = cmp.Or(o.Delay, defaultDelay), cmp.Or(o.chunk, defaultChunk)
	if o.MaxUnwritten <= 0 {
		o.MaxUnwritten = defaultMaxUnwritten
	}
	if o.ErrorHandler == nil {
		o.ErrorHandler = func(error) {}
	}
	if !o.AllowSecrets && (isSecretType(reflect.TypeFor[T]()) || isSecretResource(o.Resource)) {
		return o, ErrSecret
	}
	return o, nil
}

// isSecretResource reports whether the name of a resource contains the word secrets.
func isSecretResource(resource string) bool {
	words := strings.FieldsFunc(strings.ToLower(resource), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	})
	return slices.Contains(words, "secrets")
}

func (o Options[T]) header() header {
	return header{
		Format:   format,
		Type:     nameOf(reflect.TypeFor[T]()),
		Resource: o.Resource,
		Cluster:  o.Cluster,
		Codec:    o.Codec.Name(),
	}
}

// nameOf returns the name of a type with the full path of its package: there is more than one
// *v1.Event.
func nameOf(t reflect.Type) string {
	switch {
	case t.PkgPath() != "":
		return t.PkgPath() + "." + t.Name()
	case t.Kind() == reflect.Pointer && t.Name() == "":
		return "*" + nameOf(t.Elem())
	}
	return t.String()
}

// isSecretType reports whether a type is or holds a Secret, or is a generic type with Secrets as an
// argument, such as the metadata of Secrets.
func isSecretType(t reflect.Type) bool { return masking.Holds(t, isSecret) }

// isSecret compares names, so that this package does not import k8s.io/api/core/v1.
func isSecret(t reflect.Type) bool { return secretName.MatchString(t.PkgPath() + "." + t.Name()) }

// secretName is in the names of Secrets and of types with Secrets as an argument.
var secretName = regexp.MustCompile(`(^|[^\w./-])k8s\.io/api/core/v1\.Secret(List)?($|\W)`)

// secretTypes remembers isSecretType for the objects of one store.
type secretTypes struct{ known sync.Map } // of bool by reflect.Type

func (s *secretTypes) has(t reflect.Type) bool {
	is, ok := s.known.Load(t)
	if !ok {
		is, _ = s.known.LoadOrStore(t, isSecretType(t))
	}
	return is.(bool)
}

// withoutSecrets rejects Secrets. Without the name of a resource, it also rejects objects that may
// be Secrets.
func withoutSecrets[T any](keyOf store.KeyFunc[T], resource string) store.KeyFunc[T] {
	dynamic, types := reflect.TypeFor[T]().Kind() == reflect.Interface, new(secretTypes)
	return func(object T) (store.Key, error) {
		key, err := keyOf(object)
		if err != nil {
			return key, err
		}
		if dynamic && types.has(reflect.TypeOf(object)) {
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
