package persist

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Codec turns objects into bytes and back. Its methods are called from several
// goroutines at once.
type Codec[T any] interface {
	// Name tells this encoding from others. It is kept in the file, which can be
	// opened only with a codec of the same name.
	Name() string
	// Encode returns the bytes of an object, which it must not change.
	Encode(object T) ([]byte, error)
	// Decode returns the object of some bytes. It must not hold on to them.
	Decode(data []byte) (T, error)
}

// JSON returns a codec for every type that encoding/json reads as it was written, and for
// *unstructured.Unstructured, with or without a kind.
func JSON[T any]() Codec[T] {
	if reflect.TypeFor[T]() == reflect.TypeFor[*unstructured.Unstructured]() {
		return untypedCodec[T]{}
	}
	return jsonCodec[T]{}
}

// untypedCodec is JSON for objects without a Go type. Their own methods do not read one
// without a kind, which the items of lists are.
type untypedCodec[T any] struct{}

func (untypedCodec[T]) Name() string { return "json" }

func (untypedCodec[T]) Encode(object T) ([]byte, error) {
	return json.Marshal(any(object).(*unstructured.Unstructured).Object)
}

func (untypedCodec[T]) Decode(data []byte) (object T, err error) {
	var content map[string]any
	if err := utiljson.Unmarshal(data, &content); err != nil {
		return object, err
	}
	return any(&unstructured.Unstructured{Object: content}).(T), nil
}

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Name() string { return "json" }

func (jsonCodec[T]) Encode(object T) ([]byte, error) { return json.Marshal(object) }

func (jsonCodec[T]) Decode(data []byte) (T, error) {
	var object T
	err := json.Unmarshal(data, &object)
	return object, err
}

// message is what the types of k8s.io/api are: they can be written as protobuf.
type message interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	MarshalTo([]byte) (int, error)
}

// Protobuf returns a codec for pointers to types of k8s.io/api, several times as fast
// as JSON, and whether T is one. As on the wire, a map or list without elements is
// read back as nil.
func Protobuf[T any]() (codec Codec[T], ok bool) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || !t.Implements(reflect.TypeFor[message]()) {
		return nil, false
	}
	return protobufCodec[T]{}, true
}

type protobufCodec[T any] struct{}

func (protobufCodec[T]) Name() string { return "protobuf" }

// Encode puts kind and version of the API before the message, which has neither.
func (protobufCodec[T]) Encode(object T) ([]byte, error) {
	m := any(object).(message)
	body, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	kind := m.GetObjectKind().GroupVersionKind()
	data := make([]byte, 0, len(body)+2)
	data = appendString(data, kind.GroupVersion().String())
	data = appendString(data, kind.Kind)
	return append(data, body...), nil
}

func (protobufCodec[T]) Decode(data []byte) (T, error) {
	object := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	m := object.(message)
	version, data, ok := cutString(data)
	kind, data, ok2 := cutString(data)
	if !ok || !ok2 {
		var none T
		return none, errShort
	}
	if err := m.Unmarshal(data); err != nil {
		var none T
		return none, err
	}
	if version != "" || kind != "" {
		m.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind))
	}
	return object.(T), nil
}

// defaultCodec is protobuf where T has it, and else JSON.
func defaultCodec[T any]() (Codec[T], error) {
	if codec, ok := Protobuf[T](); ok {
		return codec, nil
	}
	if reflect.TypeFor[T]().Kind() == reflect.Interface {
		return nil, ErrNoCodec
	}
	return JSON[T](), nil
}

var errShort = errors.New("too short")

// appendString appends a string with its length.
func appendString(data []byte, s string) []byte {
	return append(binary.AppendUvarint(data, uint64(len(s))), s...)
}

// cutString returns the string at the beginning of data, and the rest.
func cutString(data []byte) (s string, rest []byte, ok bool) {
	n, width := binary.Uvarint(data)
	if width <= 0 || n > uint64(len(data)-width) {
		return "", data, false
	}
	data = data[width:]
	return string(data[:n]), data[n:], true
}
