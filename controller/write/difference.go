package write

import (
	"bytes"
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// difference returns the merge patch that turns held into want.
func difference[T metav1.Object](held, want T) (map[string]any, error) {
	if p := reflect.ValueOf(held); p.Kind() == reflect.Pointer && p.Pointer() == reflect.ValueOf(want).Pointer() {
		return nil, ErrSame
	}
	if reflect.DeepEqual(held, want) {
		return nil, nil // encoding both took two thirds of an operator's restart
	}
	before, err := json.Marshal(held)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(before, after) {
		return nil, nil // nil beside empty, or quantities in another form
	}
	return differenceOf(before, after)
}

func differenceOf(held, want []byte) (map[string]any, error) {
	before, err := fieldsOf(held)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(want)
	if err != nil {
		return nil, err
	}
	return patchOf(before, after), nil
}

// fieldsOf reads a document, and keeps numbers as text. The default, float64, has only 53 bits for
// an int64: a change could be missed, or another number sent.
func fieldsOf(document []byte) (fields map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	return fields, decoder.Decode(&fields)
}

// patchOf returns the merge patch of RFC 7386 that turns one document into another.
func patchOf(before, after map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range before {
		if _, ok := after[name]; !ok {
			patch[name] = nil
		}
	}
	for name, value := range after {
		old, had := before[name]
		if had && reflect.DeepEqual(old, value) {
			continue
		}
		oldFields, wasObject := old.(map[string]any)
		fields, isObject := value.(map[string]any)
		if wasObject && isObject {
			value = patchOf(oldFields, fields)
		}
		patch[name] = value
	}
	return patch
}
