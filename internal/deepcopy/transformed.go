package deepcopy

import (
	"bytes"
	"maps"
	"math"
	"reflect"
)

// Transformed returns what a function makes of a copy of an object. Parts in which the two are equal
// are those of the object, which other objects may share. The function may put parts of its own into
// the result, so these are not written to.
func Transformed(object any, transform func(any) (any, error)) (any, error) {
	result, err := transform(Of(object))
	if err != nil {
		return nil, err
	}
	share(reflect.ValueOf(&result).Elem(), reflect.ValueOf(&object).Elem())
	return result, nil
}

// share replaces the parts of to, a shallow copy of a changed value, that are equal in original, and reports
// whether there are such. What lies behind a reference is copied before a part of it is replaced. If it has no
// such part it stays as it is, because the transform may give the same one to all objects.
func share(to, original reflect.Value) (shared bool) {
	switch to.Kind() {
	case reflect.Struct:
		for i := range to.NumField() {
			if field := to.Field(i); field.CanSet() && share(field, original.Field(i)) {
				shared = true
			}
		}
		return shared
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
	default:
		return false
	}
	if to.IsNil() || original.IsNil() {
		return false
	}
	if equal(to, original) {
		to.Set(original)
		return true
	}
	var own reflect.Value
	switch to.Kind() {
	case reflect.Pointer:
		own = reflect.New(to.Type().Elem())
		own.Elem().Set(to.Elem())
		shared = share(own.Elem(), original.Elem())
	case reflect.Interface:
		if isPlain(to.Elem().Kind()) || to.Elem().Type() != original.Elem().Type() {
			return false
		}
		own = reflect.New(to.Elem().Type()).Elem()
		own.Set(to.Elem())
		shared = share(own, original.Elem())
	case reflect.Slice:
		if isPlain(to.Type().Elem().Kind()) {
			return false
		}
		own = reflect.MakeSlice(to.Type(), to.Len(), to.Len())
		reflect.Copy(own, to)
		for i := range min(own.Len(), original.Len()) {
			shared = share(own.Index(i), original.Index(i)) || shared
		}
	case reflect.Map:
		if isPlain(to.Type().Elem().Kind()) {
			return false
		}
		own = reflect.MakeMapWithSize(to.Type(), to.Len())
		for entries := to.MapRange(); entries.Next(); {
			value := reflect.New(to.Type().Elem()).Elem()
			value.Set(entries.Value())
			if o := original.MapIndex(entries.Key()); o.IsValid() {
				shared = share(value, o) || shared
			}
			own.SetMapIndex(entries.Key(), value)
		}
	}
	if shared {
		to.Set(own)
	}
	return shared
}

// equal reports whether nobody could tell two values of one type apart. It may report false for
// values with unexported fields.
func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !a.Type().Field(i).IsExported() {
				return a.Comparable() && a.Equal(b) // as time.Time and resource.Quantity
			}
		}
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		return a.Pointer() == b.Pointer() || !a.IsNil() && !b.IsNil() && equal(a.Elem(), b.Elem())
	case reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return a.Elem().Type() == b.Elem().Type() && equal(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Type().Elem().Kind() == reflect.Uint8 {
			return a.IsNil() == b.IsNil() && bytes.Equal(a.Bytes(), b.Bytes())
		}
		return a.IsNil() == b.IsNil() && equalItems(a, b)
	case reflect.Array:
		return equalItems(a, b)
	case reflect.Map:
		return a.IsNil() == b.IsNil() && equalEntries(a, b)
	case reflect.Float32, reflect.Float64: // 0 and -0 differ in JSON
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	}
	return a.Equal(b)
}

func equalItems(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !equal(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

func equalEntries(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	if a, ok := a.Interface().(map[string]string); ok {
		return maps.Equal(a, b.Interface().(map[string]string))
	}
	for entries := a.MapRange(); entries.Next(); {
		if o := b.MapIndex(entries.Key()); !o.IsValid() || !equal(entries.Value(), o) {
			return false
		}
	}
	return true
}
