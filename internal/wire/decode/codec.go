package decode

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/kubereflector/kubereflector/internal/wire"
)

// ErrNoStruct means that T is not a pointer to a struct.
var ErrNoStruct = errors.New("not a pointer to a struct")

// ErrNotT means that a type is neither T nor implements it.
var ErrNotT = errors.New("the type is not a T")

// Codec decodes objects of one type: T, or a type that implements the interface T. It has the
// options, and the properties of the type.
type Codec[T any] struct {
	elem     reflect.Type // the struct
	settings settings
	shape    shape
	protobuf bool // the type has a generated Unmarshal method
	nests    bool // its messages may contain themselves

	quickly       sync.Once // makes the fields below
	root          *reader
	tables, lists int // their numbers in root
}

// For returns the codec of T. It returns [ErrNoStruct] unless T is a pointer to a struct.
func For[T any](opts ...Option) (*Codec[T], error) { return ForType[T](reflect.TypeFor[T](), opts...) }

// ForType returns the codec of a type t that is T or implements it. It returns [ErrNoStruct] unless
// t is a pointer to a struct, and [ErrNotT] if t is not a T.
func ForType[T any](t reflect.Type, opts ...Option) (*Codec[T], error) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("decode into %s: %w", t, ErrNoStruct)
	}
	if want := reflect.TypeFor[T](); !t.AssignableTo(want) {
		return nil, fmt.Errorf("decode %s into %s: %w", t, want, ErrNotT)
	}
	c := &Codec[T]{elem: t.Elem(), settings: defaults(), shape: shapeOf(t.Elem())}
	for _, opt := range opts {
		opt.apply(&c.settings)
	}
	c.protobuf = t.Implements(messageType)
	c.nests = c.protobuf && nests(t.Elem())
	return c, nil
}

// Type returns the type of the objects: a pointer to a struct.
func (c *Codec[T]) Type() reflect.Type { return reflect.PointerTo(c.elem) }

// Protobuf reports whether the type can be decoded from protobuf.
func (c *Codec[T]) Protobuf() bool { return c.protobuf }

// DropsManagedFields reports whether objects have no metadata.managedFields: see
// [SkipManagedFields].
func (c *Codec[T]) DropsManagedFields() bool {
	return c.settings.skipManagedFields && (c.elem == unstructuredType || c.shape.has(managedFieldsType))
}

// keeps reports whether objects may refer to bytes that their own methods got.
func (c *Codec[T]) keeps(format wire.Format) bool {
	if format == wire.Protobuf {
		return foreign(c.elem)
	}
	return c.shape.keeps
}
