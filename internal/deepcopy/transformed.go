package deepcopy

import (
	"maps"
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
	shareInto(reflect.ValueOf(&result).Elem(), reflect.ValueOf(&object).Elem())
	return result, nil
}

// shareInto replaces the parts of to, a shallow copy of a changed value, that are equal in original.
// What lies behind a reference is copied before a part of it is replaced.
func shareInto(to, original reflect.Value) {
	if equal(to, original) {
		to.Set(original)
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		for i := range to.NumField() {
			if field := to.Field(i); field.CanSet() {
				shareInto(field, original.Field(i))
			}
		}
	case reflect.Pointer:
		if !to.IsNil() && !original.IsNil() {
			own := reflect.New(to.Type().Elem())
			own.Elem().Set(to.Elem())
			shareInto(own.Elem(), original.Elem())
			to.Set(own)
		}
	case reflect.Interface:
		if !to.IsNil() && !original.IsNil() && to.Elem().Type() == original.Elem().Type() {
			own := reflect.New(to.Elem().Type()).Elem()
			own.Set(to.Elem())
			shareInto(own, original.Elem())
			to.Set(own)
		}
	case reflect.Slice:
		if !to.IsNil() && !isPlain(to.Type().Elem().Kind()) {
			own := reflect.MakeSlice(to.Type(), to.Len(), to.Len())
			reflect.Copy(own, to)
			for i := range min(own.Len(), original.Len()) {
				shareInto(own.Index(i), original.Index(i))
			}
			to.Set(own)
		}
	case reflect.Map:
		if !to.IsNil() && !isPlain(to.Type().Elem().Kind()) {
			own := reflect.MakeMapWithSize(to.Type(), to.Len())
			for entries := to.MapRange(); entries.Next(); {
				value := reflect.New(to.Type().Elem()).Elem()
				value.Set(entries.Value())
				if o := original.MapIndex(entries.Key()); o.IsValid() {
					shareInto(value, o)
				}
				own.SetMapIndex(entries.Key(), value)
			}
			to.Set(own)
		}
	}
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
		return a.IsNil() == b.IsNil() && equalItems(a, b)
	case reflect.Array:
		return equalItems(a, b)
	case reflect.Map:
		return a.IsNil() == b.IsNil() && equalEntries(a, b)
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
