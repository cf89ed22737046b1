package reflector

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// DecodeError means that an object of the server's does not fit T.
type DecodeError struct {
	// Resource is the resource, such as "foos.example.com/v1".
	Resource string
	// Namespace and Name are those of the object, as far as they can be read.
	Namespace, Name string
	// Type is the Go type of T, such as "*main.Foo".
	Type string
	// Field is the place in the object, as a JSON pointer such as "/spec/size"; empty if it
	// is not known.
	Field string
	// Err is why. It is a [store.ErrPanic], with the stack, if a method of T's panicked.
	Err error
}

// Error names the resource, the object, the type and the cause.
func (e *DecodeError) Error() string {
	return "decode " + e.Resource + " " + cut(e.Namespace+"/"+e.Name, maxName) + " into " + e.Type + ": " + cut(e.Err.Error(), maxMessage)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// holdsFunc reports whether an object is held at a version, so that it need not be
// decoded. It is nil if everything has to be.
type holdsFunc func(store.Key, store.Version) bool

// decoder decodes for one goroutine.
type decoder[T Object] struct {
	of      *Resource[T]
	objects *decode.Decoder[T] // nil before the first object
	loose   bool               // T is Unstructured
	unknown error              // the field of the last object that T does not have
	kinds   kinds
	passed  metav1.TypeMeta // the kind that was checked last
	names   arena
}

// decoder returns a decoder, one with experience if there is one.
func (r *Resource[T]) decoder() *decoder[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.spare); n > 0 {
		d := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return d
	}
	return &decoder[T]{of: r, loose: reflect.TypeFor[T]() == reflect.TypeFor[*unstructured.Unstructured]()}
}

// begin makes what it takes to decode: much, for whoever finds all objects held.
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

// giveBack keeps a decoder for the next list or watch.
func (r *Resource[T]) giveBack(d *decoder[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spare) < r.keep {
		r.spare = append(r.spare, d)
	}
}

// keepAll makes all decoders be kept that are given back: for the pages of a list.
func (r *Resource[T]) keepAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep = runtime.GOMAXPROCS(0)
}

// keepFew gives up most spare decoders, with all that they remember: a watch that has nothing
// to catch up with needs one, and seldom another.
func (r *Resource[T]) keepFew() {
	const few = 2
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep = few
	if extra := len(r.spare) - few; extra > 0 {
		r.spare = slices.Delete(r.spare, 0, extra)
	}
}

// named is an object with what its methods say of it, so that nobody has to call them who
// would not survive it: those of an embedded pointer that nothing was decoded into panic.
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
		d.of.options.unknown(d.newError(n.key, d.unknown))
	}
	return n, nil
}

// read decodes an object and asks it who it is. A method of T's that panics over one object is
// no reason to decode no others.
func (d *decoder[T]) read(format wire.Format, data []byte) (n named[T], err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v\n%s", store.ErrPanic, value, debug.Stack())
		}
	}()
	object, err := d.object(format, data)
	if err != nil {
		return n, err
	}
	if kinded, ok := any(object).(kinded); ok {
		kinded.GetObjectKind() // setKind will, where a panic would not be caught
	}
	return named[T]{
		object:  object,
		key:     store.Key{Namespace: object.GetNamespace(), Name: object.GetName()},
		version: object.GetResourceVersion(),
	}, nil
}

func (d *decoder[T]) object(format wire.Format, data []byte) (object T, err error) {
	if !d.loose || format == wire.Protobuf {
		if d.objects == nil {
			d.begin()
		}
		return d.objects.Decode(format, data)
	}
	// Unstructured's own method wants a kind, which the items of lists need not have.
	loose := &unstructured.Unstructured{}
	if err := unmarshalJSON(format, data, &loose.Object); err != nil {
		return object, err
	}
	if d.of.options.skipManaged {
		unstructured.RemoveNestedField(loose.Object, "metadata", "managedFields")
	}
	return any(loose).(T), nil
}

func (d *decoder[T]) newError(key store.Key, err error) *DecodeError {
	return &DecodeError{
		Resource: d.of.name, Namespace: cut(key.Namespace, maxName), Name: cut(key.Name, maxName),
		Type: reflect.TypeFor[T]().String(), Field: decode.Field(err), Err: err,
	}
}

// rejection says what is lacking, since it cannot be decoded; false if not even its metadata
// can be read.
func (d *decoder[T]) rejection(format wire.Format, data []byte, err error) (store.Rejection, bool) {
	key, version, ok := identify(format, data)
	return store.Rejection{Key: key, Version: version, Err: err}, ok
}

// identify says which object something is that may be unreadable but for its metadata.
func identify(format wire.Format, data []byte) (store.Key, store.Version, bool) {
	if id, ok := wire.Peek(format, data); ok {
		return store.Key{Namespace: string(id.Namespace), Name: string(id.Name)},
			store.Version{UID: types.UID(id.UID), ResourceVersion: string(id.ResourceVersion)}, true
	}
	var m metav1.PartialObjectMetadata
	if err := unmarshal(format, data, &m); err != nil {
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

// peek returns what an undecoded object is, and false if it does not say so plainly.
func (d *decoder[T]) peek(format wire.Format, data []byte) (store.Key, store.Version, bool) {
	id, ok := wire.Peek(format, data)
	if !ok {
		return store.Key{}, store.Version{}, false
	}
	return d.keyOf(id), d.versionOf(id), true
}

// arena makes strings of bytes, many in one piece of memory.
type arena struct{ b *strings.Builder }

func (a *arena) text(b []byte) string {
	const size = 16 << 10
	if a.b == nil || a.b.Cap()-a.b.Len() < len(b) {
		a.b = new(strings.Builder)
		a.b.Grow(max(size, len(b)))
	}
	start := a.b.Len()
	a.b.Write(b) // within the capacity: what was returned before stays where it is
	return a.b.String()[start:]
}

// kinded is an object that says its kind.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// setKind gives an object a kind if it does not say one itself. Protobuf has it in the envelope,
// and lists of built-in types say it once.
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

// kinds knows the kind and apiVersion that were seen last, as strings.
type kinds struct{ last metav1.TypeMeta }

// of returns the kind that a frame's envelope says.
func (k *kinds) of(frame *wire.Frame) metav1.TypeMeta {
	if string(frame.Kind) != k.last.Kind || string(frame.APIVersion) != k.last.APIVersion {
		k.last = metav1.TypeMeta{Kind: string(frame.Kind), APIVersion: string(frame.APIVersion)}
	}
	return k.last
}
