package decode

import (
	"reflect"
	"slices"
)

// hasSlices reports whether values of a type may hold slices.
func hasSlices(t reflect.Type, seen []reflect.Type) bool {
	if slices.Contains(seen, t) {
		return false
	}
	seen = append(seen, t)
	switch t.Kind() {
	case reflect.Slice:
		return true
	case reflect.Pointer, reflect.Map, reflect.Array:
		return hasSlices(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && hasSlices(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// clip removes the spare capacity of all slices in v, so that append copies them. Slices in maps or
// behind an any keep theirs.
func clip(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Len() < v.Cap() {
			v.Set(v.Slice3(0, v.Len(), v.Len()))
		}
		if !hasSlices(v.Type().Elem(), nil) {
			return
		}
		for i := range v.Len() {
			clip(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			clip(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			clip(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				clip(f)
			}
		}
	}
}
