package masking

import (
	"reflect"
	"strings"
	"sync"
)

// A Secret in a field of a Go type states no kind, since only the outermost object of an answer has one.
// The encoded object then looks like any other with data, so the Go type has to tell.

// reach says whether values of a Go type hold a Secret.
type reach uint8

const (
	never     reach = iota
	sometimes       // if an interface in it does
	always          // some field has a type of Secrets
)

// reaches remembers reachOf by reflect.Type.
var reaches sync.Map

func reachOf(t reflect.Type) reach {
	if known, ok := reaches.Load(t); ok {
		return known.(reach)
	}
	found := walkType(t, true, isSecretType, map[place]bool{})
	reaches.Store(t, found)
	return found
}

// Holds reports whether is returns true for a type, or for one in it at any depth. It does not see what is in
// an interface.
func Holds(t reflect.Type, is func(reflect.Type) bool) bool {
	return walkType(t, false, is, map[place]bool{}) == always
}

// place is a type in a walk. shown is true if values there can be read, because all fields on the way are
// exported or embedded.
type place struct {
	reflect.Type
	shown bool
}

// walkType also enters unexported fields, because a method MarshalJSON may show them.
func walkType(t reflect.Type, shown bool, is func(reflect.Type) bool, seen map[place]bool) (found reach) {
	if seen[place{t, shown}] {
		return never
	}
	seen[place{t, shown}] = true
	if is(t) {
		return always
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return walkType(t.Elem(), shown, is, seen)
	case reflect.Interface:
		if shown {
			return sometimes
		}
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			found = max(found, walkType(field.Type, shown && isShown(field), is, seen))
		}
	}
	return found
}

func isShown(field reflect.StructField) bool { return field.IsExported() || field.Anonymous }

// isSecretType reports whether a type is the struct of a Secret, or may be the metadata of one. Many
// types that only refer to a Secret have the word in their names too.
func isSecretType(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	if t.Name() == metadataOnly {
		return true
	}
	named := strings.Contains(strings.ToLower(t.Name()), "secret")
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		if !field.IsExported() || name == "-" {
			continue
		}
		switch strings.ToLower(name) {
		case "stringdata":
			return true
		case "data", "metadata":
			if named {
				return true
			}
		}
	}
	return false
}

// visit is a reference in a walk of a value, which may refer to itself.
type visit struct {
	reflect.Type
	pointer uintptr
	len     int
}

// holdsSecret reports whether a value holds a Secret, as far as Go types can tell.
func holdsSecret(v reflect.Value, seen map[visit]bool) bool {
	if !v.IsValid() {
		return false
	}
	if found := reachOf(v.Type()); found != sometimes {
		return found == always
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		at := visit{Type: v.Type(), pointer: v.Pointer()}
		if v.Kind() == reflect.Slice {
			at.len = v.Len()
		}
		if seen[at] {
			return false
		}
		seen[at] = true
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return holdsSecret(v.Elem(), seen)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if holdsSecret(v.Index(i), seen) {
				return true
			}
		}
	case reflect.Map:
		for fields := v.MapRange(); fields.Next(); {
			if holdsSecret(fields.Value(), seen) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if isShown(v.Type().Field(i)) && holdsSecret(v.Field(i), seen) {
				return true
			}
		}
	}
	return false
}
