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

// Codec decodes objects of type T. It has the options, and the properties of T.
type Codec[T any] struct {
	elem     reflect.Type
	settings settings
	shape    shape
	protobuf bool

	quickly       sync.Once // makes the fields below
	root          *reader
	tables, lists int // their numbers in root
}

// For returns the codec of T. It returns [ErrNoStruct] unless T is a pointer to a struct.
func For[T any](opts ...Option) (*Codec[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("decode into %s: %w", t, ErrNoStruct)
	}
	c := &Codec[T]{elem: t.Elem(), settings: defaults(), shape: shapeOf(t.Elem())}
	for _, opt := range opts {
		opt.apply(&c.settings)
	}
	c.protobuf = t.Implements(messageType)
	return c, nil
}

// Protobuf reports whether T can be decoded from protobuf.
func (c *Codec[T]) Protobuf() bool { return c.protobuf }

// keeps reports whether objects may refer to bytes that their own methods got.
func (c *Codec[T]) keeps(format wire.Format) bool {
	if format == wire.Protobuf {
		return foreign(c.elem)
	}
	return c.shape.keeps
}

// NewDecoder returns a decoder for one goroutine.
func (c *Codec[T]) NewDecoder() *Decoder[T] { return newDecoder(c) }
