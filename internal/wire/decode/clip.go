package decode

import "reflect"

// clip removes the spare capacity of all slices in v, so that append copies them. Slices in maps or
// behind an any keep theirs.
func clip(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Len() < v.Cap() {
			v.Set(v.Slice3(0, v.Len(), v.Len()))
		}
		if e := v.Type().Elem().Kind(); e <= reflect.Complex128 || e == reflect.String {
			return // such elements have no slices
		}
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
