package decode

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// protobufDecoder decodes types with a generated Unmarshal method.
type protobufDecoder struct {
	quick             *quick // nil if quick decoding does not support the type
	nests             bool   // messages may contain themselves
	skipManagedFields bool
}

func newProtobufDecoder(s *settings, t reflect.Type, q *quick) *protobufDecoder {
	d := &protobufDecoder{nests: nests(t), skipManagedFields: s.skipManagedFields}
	if q.root.fields != nil {
		d.quick = q
	}
	return d
}

// decode decodes into the result of fresh.
func (d *protobufDecoder) decode(data []byte, fresh func() any) (any, error) {
	object := fresh()
	if d.nests && tooNested(data, mostNested) {
		return object, ErrTooDeep
	}
	if d.quick.open() {
		if d.quick.decodeMessage(data, reflect.ValueOf(object).UnsafePointer()) {
			return object, nil
		}
		object = fresh()
	}
	err := object.(message).Unmarshal(data)
	if managed, ok := object.(metav1.Object); ok && d.skipManagedFields {
		managed.SetManagedFields(nil)
	}
	return object, err
}
