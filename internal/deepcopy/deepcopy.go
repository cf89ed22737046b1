package deepcopy

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// Of returns a copy of an object that shares with it only functions, channels, and the targets of
// unexported fields in structs that do not copy themselves: only their own package edits those. An
// object that contains itself is not supported.
func Of[T any](object T) T {
	if v := reflect.ValueOf(object); v.Kind() == reflect.Pointer && v.IsNil() {
		return object // DeepCopyObject may panic
	}
	if o, ok := any(object).(runtime.Object); ok {
		// A promoted method of an embedded field returns another type.
		if c, ok := o.DeepCopyObject().(T); ok && reflect.TypeOf(c) == reflect.TypeOf(object) {
			return c
		}
	}
	var c T
	copyInto(reflect.ValueOf(&c).Elem(), reflect.ValueOf(&object).Elem())
	return c
}

// copyInto sets one value to a deep copy of another of the same type.
func copyInto(to, from reflect.Value) {
	to.Set(from)
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyInto(to.Elem(), from.Elem())
		}
	case reflect.Interface:
		if !from.IsNil() {
			c := reflect.New(from.Elem().Type()).Elem()
			copyInto(c, from.Elem())
			to.Set(c)
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			copyItems(to, from)
		}
	case reflect.Array:
		copyItems(to, from)
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for entries := from.MapRange(); entries.Next(); {
				c := reflect.New(from.Type().Elem()).Elem()
				copyInto(c, entries.Value())
				to.SetMapIndex(entries.Key(), c)
			}
		}
	case reflect.Struct:
		copyStruct(to, from)
	}
}

func copyItems(to, from reflect.Value) {
	if isPlain(from.Type().Elem().Kind()) {
		reflect.Copy(to, from)
		return
	}
	for i := range from.Len() {
		copyInto(to.Index(i), from.Index(i))
	}
}

// isPlain reports whether values of a kind contain no references to mutable data.
func isPlain(k reflect.Kind) bool { return k <= reflect.Complex128 || k == reflect.String }

// copyStruct copies a struct by its own method if it has one. A promoted method of an embedded
// field has another type, and is not called.
func copyStruct(to, from reflect.Value) {
	pointer := reflect.PointerTo(from.Type())
	if m, ok := pointer.MethodByName("DeepCopyInto"); ok && m.Type.NumIn() == 2 && m.Type.In(1) == pointer && m.Type.NumOut() == 0 {
		m.Func.Call([]reflect.Value{addressed(from), to.Addr()})
		return
	}
	if m, ok := pointer.MethodByName("DeepCopy"); ok && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 {
		switch m.Type.Out(0) {
		case from.Type():
			to.Set(m.Func.Call([]reflect.Value{addressed(from)})[0])
			return
		case pointer:
			to.Set(m.Func.Call([]reflect.Value{addressed(from)})[0].Elem())
			return
		}
	}
	copyFields(to, from)
}

// copyFields copies the exported fields, also of structs that are embedded by a type with an
// unexported name: JSON contains them, and callers can reach them.
func copyFields(to, from reflect.Value) {
	for i := range from.NumField() {
		switch f := from.Type().Field(i); {
		case f.IsExported():
			copyInto(to.Field(i), from.Field(i))
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			copyFields(to.Field(i), from.Field(i))
		}
	}
}

// addressed returns a pointer to a value, which may come from a map.
func addressed(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v.Addr()
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p
}
