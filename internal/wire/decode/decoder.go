package decode

import (
	"bytes"
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/kubereflector/kubereflector/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Decoder decodes objects of type T, one after the other. Get one from [Codec.NewDecoder].
type Decoder[T any] struct {
	codec    *Codec[T]
	json     *jsonDecoder
	messages *quick // of protobuf; nil if quick decoding does not support the type
	fresh    func() any
}

// NewDecoder returns a decoder for one goroutine.
func (c *Codec[T]) NewDecoder() *Decoder[T] {
	d := &Decoder[T]{codec: c, json: newJSONDecoder(&c.settings, &c.shape)}
	q := c.newQuick(d.json)
	if q.root.does == trees || q.root.does == objects && c.settings.reportUnknown == nil {
		d.json.quick = q
	}
	if c.protobuf && q.root.fields != nil {
		d.messages = q
	}
	d.fresh = func() any { return reflect.New(c.elem).Interface() }
	return d
}

// ErrNoProtobuf means that T has no generated Unmarshal method.
var ErrNoProtobuf = errors.New("type cannot be decoded from protobuf")

// Decode decodes the object of a [wire.Frame]. It keeps no reference to data and does not change
// it.
func (d *Decoder[T]) Decode(format wire.Format, data []byte) (T, error) {
	object, err := d.decode(format, data)
	if err != nil {
		var none T
		return none, err
	}
	if m, ok := object.(*metav1.PartialObjectMetadata); ok && (m.Kind == "" || m.Kind == "PartialObjectMetadata") && d.codec.settings.metadataKind.Kind != "" {
		m.TypeMeta = d.codec.settings.metadataKind
	}
	return object.(T), nil
}

func (d *Decoder[T]) decode(format wire.Format, data []byte) (any, error) {
	if d.codec.keeps(format) {
		data = bytes.Clone(data) // data is a pooled buffer, which later objects reuse
	}
	switch {
	case format != wire.Protobuf:
		return d.json.decode(data, d.fresh, d.codec.settings.reportUnknown)
	case !d.codec.protobuf:
		return nil, ErrNoProtobuf
	case d.codec.nests && tooNested(data, mostNested):
		return nil, ErrTooDeep
	}
	object := d.fresh()
	if d.messages.open() {
		if d.messages.decodeMessage(data, reflect.ValueOf(object).UnsafePointer()) {
			return object, nil
		}
		object = d.fresh()
	}
	err := object.(message).Unmarshal(data)
	if managed, ok := object.(metav1.Object); ok && d.codec.settings.skipManagedFields {
		managed.SetManagedFields(nil)
	}
	return object, err
}

// Field returns the place in an object that an error of Decode, or a reported error, refers to: a
// JSON pointer, or "" if it is unknown.
func Field(err error) string {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return string(semantic.JSONPointer)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return string(syntactic.JSONPointer)
	}
	return ""
}

// message is the interface of generated protobuf types.
type message interface{ Unmarshal([]byte) error }

var messageType = reflect.TypeFor[message]()
