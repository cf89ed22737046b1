package clientgo

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// deepCopy returns a copy of an object that shares nothing with it that code may edit. Custom resources
// need no generated code, so an object may have no DeepCopyObject.
func deepCopy[T any](object T) T {
	if o, ok := any(object).(runtime.Object); ok {
		// A type that embeds another one inherits its method, which copies only the embedded part.
		if t, ok := o.DeepCopyObject().(T); ok && reflect.TypeOf(t) == reflect.TypeOf(object) {
			return t
		}
	}
	copied, _ := copyOf(reflect.ValueOf(object)).Interface().(T)
	return copied
}

// copyOf copies a value with everything behind it. Types that copy themselves do so. Fields that are not
// exported are copied as they are, because only their own package edits them.
func copyOf(from reflect.Value) reflect.Value {
	to := reflect.New(from.Type()).Elem()
	to.Set(from)
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			to.Elem().Set(copyOf(from.Elem()))
		}
	case reflect.Interface:
		if !from.IsNil() {
			to.Set(copyOf(from.Elem()))
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for key, value := range from.Seq2() {
				to.SetMapIndex(key, copyOf(value))
			}
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				to.Index(i).Set(copyOf(from.Index(i)))
			}
		}
	case reflect.Array:
		for i := range from.Len() {
			to.Index(i).Set(copyOf(from.Index(i)))
		}
	case reflect.Struct:
		original := reflect.New(from.Type())
		original.Elem().Set(from)
		into := original.MethodByName("DeepCopyInto")
		if into.IsValid() && into.Type() == reflect.FuncOf([]reflect.Type{original.Type()}, nil, false) { // not one of an embedded type
			into.Call([]reflect.Value{to.Addr()})
			break
		}
		copyFields(to)
	}
	return to
}

// copyFields copies what the exported fields of a struct refer to, also those of an embedded struct whose
// type is not exported: decoders fill them, too.
func copyFields(of reflect.Value) {
	for i := range of.NumField() {
		switch field := of.Field(i); {
		case field.CanSet():
			field.Set(copyOf(field))
		case of.Type().Field(i).Anonymous && field.Kind() == reflect.Struct:
			copyFields(field)
		}
	}
}
