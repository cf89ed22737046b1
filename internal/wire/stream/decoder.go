package stream

import (
	"fmt"
	"runtime/debug"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decoder decodes objects on one goroutine.
type decoder[T Object] struct {
	of      *Reader[T]
	objects *decode.Decoder[T] // nil before the first object
	unknown error              // the error for a field of the last object that T lacks
	kinds   kinds
	passed  metav1.TypeMeta // the last kind that passed the check
	ids     identities
}

// begin allocates the object decoder. The allocation is costly, so it waits for the first object
// that the store does not hold.
func (d *decoder[T]) begin() {
	d.objects = d.of.NewDecoder(func(err error) { d.unknown = err })
}

// named is an object with its key and version. Other code uses these fields instead of the object's
// methods, which may panic: for example, if an embedded pointer is nil after decoding.
type named[T Object] struct {
	object  T
	key     store.Key
	version string
}

// decode decodes an object. The error is a *DecodeError.
func (d *decoder[T]) decode(format wire.Format, data []byte) (named[T], error) {
	d.unknown = nil
	n, err := d.read(format, data)
	if err != nil {
		key, _, _ := identify(format, data)
		return named[T]{}, d.newError(key, err)
	}
	if d.unknown != nil {
		d.of.Unknown(d.newError(n.key, d.unknown))
	}
	return n, nil
}

// read decodes an object and calls its metadata methods. It recovers a panic of T's methods, so
// that one object does not stop the decoding of others.
func (d *decoder[T]) read(format wire.Format, data []byte) (n named[T], err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v\n%s", store.ErrPanic, value, debug.Stack())
		}
	}()
	if d.objects == nil {
		d.begin()
	}
	object, err := d.objects.Decode(format, data)
	if err != nil {
		return n, err
	}
	if kinded, ok := any(object).(kinded); ok {
		kinded.GetObjectKind() // setKind calls it later, without a recover
	}
	return named[T]{
		object:  object,
		key:     store.Key{Namespace: object.GetNamespace(), Name: object.GetName()},
		version: object.GetResourceVersion(),
	}, nil
}

// hash returns the hash of the content of a decoded frame.
func (d *decoder[T]) hash(format wire.Format, frame *wire.Frame) uint64 {
	if frame.Hash == 0 {
		o, _ := wire.Look(format, frame.Object, d.of.WithoutManagedFields)
		frame.Hash = o.Hash()
	}
	return frame.Hash
}

func (d *decoder[T]) newError(key store.Key, err error) *DecodeError {
	return &DecodeError{
		Resource: d.of.Resource, Namespace: Cut(key.Namespace, MaxName), Name: Cut(key.Name, MaxName),
		Type: d.of.Type, Field: decode.Field(err), Err: err,
	}
}

// check returns an error if a decoded object is not of the expected kind or namespace. bare is true
// if the object does not state its kind.
func (d *decoder[T]) check(object T, namespace string, format wire.Format, data []byte) (bare bool, err error) {
	if err := d.of.CheckNamespace(namespace); err != nil {
		return false, err
	}
	kind, ok := kindOfObject(object)
	if !ok {
		kind = kindOfBytes(format, data, d.passed)
	}
	if kind == d.passed {
		return kind.Kind == "", nil
	}
	if err := d.of.CheckKind(kind); err != nil {
		return false, err
	}
	d.passed = kind
	return kind.Kind == "", nil
}
