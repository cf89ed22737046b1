package client

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// DecodeError means that an object from the server does not fit T.
type DecodeError struct {
	// Resource is the resource, such as "foos.example.com/v1".
	Resource string
	// Namespace and Name identify the object, as far as the decoder can read them.
	Namespace, Name string
	// Type is the Go type of T, such as "*main.Foo".
	Type string
	// Field is the place in the object, as a JSON pointer such as "/spec/size". It is empty if the
	// place is unknown.
	Field string
	// Err is the cause. It is a [store.ErrPanic] with the stack if a method of T panicked.
	Err error
}

// Error names the resource, the object, the type and the cause.
func (e *DecodeError) Error() string {
	return "decode " + e.Resource + " " + source.Cut(e.Namespace+"/"+e.Name, source.MaxName) + " into " + e.Type + ": " + source.Cut(e.Err.Error(), source.MaxMessage)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// decoder decodes objects on one goroutine.
type decoder[T source.Object] struct {
	of      *Resource[T]
	objects *decode.Decoder[T] // nil before the first object
	unknown error              // the error for a field of the last object that T lacks
	kinds   kinds
	passed  metav1.TypeMeta // the last kind that passed the check
	names   arena
}

// decoder returns a spare decoder if there is one, which has cached values from earlier objects.
// Otherwise it makes a new one.
func (r *Resource[T]) decoder() *decoder[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.spare); n > 0 {
		d := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return d
	}
	return &decoder[T]{of: r}
}

// begin allocates the object decoder. The allocation is costly, so it waits for the first object
// that the store does not hold.
func (d *decoder[T]) begin() {
	codec, options := d.of.codec, &d.of.options
	if options.unknown != nil {
		// The codec was made with the same options without an error.
		opts := append(options.decoding[:len(options.decoding):len(options.decoding)],
			decode.ReportUnknown(func(err error) { d.unknown = err }))
		codec, _ = decode.For[T](opts...)
	}
	d.objects = codec.NewDecoder()
}

// giveBack keeps a decoder for the next list or watch, unless there are enough spare decoders.
func (r *Resource[T]) giveBack(d *decoder[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spare) < r.keep {
		r.spare = append(r.spare, d)
	}
}

// keepAll makes giveBack keep one decoder for each processor, for the pages of a list.
func (r *Resource[T]) keepAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep = runtime.GOMAXPROCS(0)
}

// keepFew drops most spare decoders and their cached values. A watch that has caught up needs one
// decoder, and rarely a second.
func (r *Resource[T]) keepFew() {
	const few = 2
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep = few
	if extra := len(r.spare) - few; extra > 0 {
		r.spare = slices.Delete(r.spare, 0, extra)
	}
}

// named is an object with its key and version. Other code uses these fields instead of the object's
// methods, which may panic: for example, if an embedded pointer is nil after decoding.
type named[T source.Object] struct {
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
		d.of.options.unknown(d.newError(n.key, d.unknown))
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

func (d *decoder[T]) newError(key store.Key, err error) *DecodeError {
	return &DecodeError{
		Resource: d.of.name, Namespace: source.Cut(key.Namespace, source.MaxName), Name: source.Cut(key.Name, source.MaxName),
		Type: reflect.TypeFor[T]().String(), Field: decode.Field(err), Err: err,
	}
}

// rejection returns the rejection for an object that cannot be decoded. It returns false if even
// the object's metadata is unreadable.
func (d *decoder[T]) rejection(format wire.Format, data []byte, err error) (store.Rejection, bool) {
	key, version, ok := identify(format, data)
	return store.Rejection{Key: key, Version: version, Err: err}, ok
}

// identify returns the key and version of an object, even if its other fields are unreadable.
func identify(format wire.Format, data []byte) (store.Key, store.Version, bool) {
	if id, ok := wire.Peek(format, data); ok {
		return store.Key{Namespace: string(id.Namespace), Name: string(id.Name)},
			store.Version{UID: types.UID(id.UID), ResourceVersion: string(id.ResourceVersion)}, true
	}
	var m metav1.PartialObjectMetadata
	if err := wire.Unmarshal(format, data, &m); err != nil {
		return store.Key{}, store.Version{}, false
	}
	return store.Key{Namespace: m.Namespace, Name: m.Name}, store.Version{UID: m.UID, ResourceVersion: m.ResourceVersion}, true
}

func (d *decoder[T]) keyOf(id wire.Identity) store.Key {
	return store.Key{Namespace: d.names.text(id.Namespace), Name: d.names.text(id.Name)}
}

func (d *decoder[T]) versionOf(id wire.Identity) store.Version {
	return store.Version{UID: types.UID(d.names.text(id.UID)), ResourceVersion: d.names.text(id.ResourceVersion)}
}

// peek returns the key and version of an undecoded object. It returns false if a quick look at the
// bytes cannot determine them.
func (d *decoder[T]) peek(format wire.Format, data []byte) (store.Key, store.Version, bool) {
	id, ok := wire.Peek(format, data)
	if !ok {
		return store.Key{}, store.Version{}, false
	}
	return d.keyOf(id), d.versionOf(id), true
}

// arena converts bytes to strings, and stores many strings in one piece of memory.
type arena struct{ b *strings.Builder }

func (a *arena) text(b []byte) string {
	const size = 16 << 10
	if a.b == nil || a.b.Cap()-a.b.Len() < len(b) {
		a.b = new(strings.Builder)
		a.b.Grow(max(size, len(b)))
	}
	start := a.b.Len()
	a.b.Write(b) // within the capacity, so earlier strings keep their memory
	return a.b.String()[start:]
}

// kinded is an object that can state its kind.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// setKind sets the kind of an object that states none. Protobuf has the kind in the envelope, and a
// list of a built-in type states the kind once for all items.
func setKind(object any, kind metav1.TypeMeta) {
	kinded, ok := object.(kinded)
	if !ok || kind.Kind == "" {
		return
	}
	switch own := kinded.GetObjectKind().(type) {
	case *metav1.TypeMeta:
		if own != nil && own.Kind == "" && own.APIVersion == "" {
			*own = kind
		}
	case *unstructured.Unstructured:
		if own.Object != nil && own.GetKind() == "" && own.GetAPIVersion() == "" {
			own.SetKind(kind.Kind)
			own.SetAPIVersion(kind.APIVersion)
		}
	}
}

// kinds caches the last kind and apiVersion as strings.
type kinds struct{ last metav1.TypeMeta }

// of returns the kind in a frame's envelope.
func (k *kinds) of(frame *wire.Frame) metav1.TypeMeta {
	if string(frame.Kind) != k.last.Kind || string(frame.APIVersion) != k.last.APIVersion {
		k.last = metav1.TypeMeta{Kind: string(frame.Kind), APIVersion: string(frame.APIVersion)}
	}
	return k.last
}
