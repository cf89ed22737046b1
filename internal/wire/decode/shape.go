package decode

import (
	"encoding"
	gojson "encoding/json"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
)

// shape has the properties of a type that matter for JSON.
type shape struct {
	// types are all types that a value can contain, without the contents of types that decode
	// themselves.
	types map[reflect.Type]bool
	// odd means that the type contains a type or tag which encoding/json and its successor, or the
	// two modules that replace them here, may interpret differently.
	odd bool
	// keeps means that the type contains a type whose methods may keep the bytes that they get.
	keeps bool
}

func shapeOf(t reflect.Type) shape {
	s := shape{types: map[reflect.Type]bool{}}
	s.add(t)
	return s
}

func (s *shape) has(t reflect.Type) bool { return s.types[t] }

var (
	unmarshalerType     = reflect.TypeFor[gojson.Unmarshaler]()
	unmarshalerFromType = reflect.TypeFor[json.UnmarshalerFrom]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	numberType          = reflect.TypeFor[gojson.Number]()
)

func (s *shape) add(t reflect.Type) {
	if s.types[t] {
		return
	}
	s.types[t] = true
	pointer := reflect.PointerTo(t)
	if pointer.Implements(unmarshalerFromType) || t == numberType {
		s.odd = true
	}
	if pointer.Implements(unmarshalerType) || pointer.Implements(textUnmarshalerType) {
		s.keeps = s.keeps || foreign(t)
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		s.add(t.Elem())
	case reflect.Map:
		s.addKey(t.Key())
		s.add(t.Elem())
	case reflect.Struct:
		s.addFields(t)
	case reflect.Interface:
		// The hook for numbers is only for any itself.
		s.odd = s.odd || t != anyType && t.NumMethod() == 0
	case reflect.Complex64, reflect.Complex128, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		s.odd = true
	}
}

// foreign reports whether a type comes from a module whose methods may keep their argument without
// a copy. The standard library and Kubernetes copy. RawMessage of encoding/json is a type of jsontext
// since Go 1.27.
func foreign(t reflect.Type) bool {
	switch path := t.PkgPath(); path {
	case "encoding/json", "encoding/json/jsontext", "math/big", "net", "net/netip", "time":
		return false
	default:
		return !strings.HasPrefix(path, "k8s.io/")
	}
}

func (s *shape) addKey(t reflect.Type) {
	switch {
	case t.Kind() == reflect.String, t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr:
	case reflect.PointerTo(t).Implements(textUnmarshalerType) && t != standardTimeType:
	default:
		s.odd = true
	}
	s.keeps = s.keeps || reflect.PointerTo(t).Implements(textUnmarshalerType) && foreign(t)
	s.types[t] = true
}

func (s *shape) addFields(t reflect.Type) {
	if json.Unmarshal([]byte("{}"), reflect.New(t).Interface(), semantics) != nil {
		s.odd = true // the library reports it: names that collide, for instance
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || (!f.IsExported() && !f.Anonymous) {
			continue
		}
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		if f.Anonymous && embedded.Kind() != reflect.Struct {
			s.odd = true
		}
		if !isUsual(tag) {
			s.odd = true
		}
		s.add(f.Type)
	}
}

// isUsual reports whether a tag is unambiguous.
func isUsual(tag string) bool {
	name, options, _ := strings.Cut(tag, ",")
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-./$:", c)) {
			return false
		}
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "", "omitempty", "omitzero", "inline":
		default:
			return false
		}
	}
	return true
}

// nests reports whether messages of type t may contain themselves. Few do.
func nests(t reflect.Type) bool {
	const open, done = 1, 2
	seen := map[reflect.Type]int{}
	var visit func(reflect.Type) bool
	visit = func(t reflect.Type) bool {
		switch seen[t] {
		case open:
			return true
		case done:
			return false
		}
		seen[t] = open
		defer func() { seen[t] = done }()
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			return visit(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				f := t.Field(i)
				if f.Tag.Get("protobuf") == "-" {
					continue
				}
				// A oneof may hold anything.
				if _, oneof := f.Tag.Lookup("protobuf_oneof"); oneof || visit(f.Type) {
					return true
				}
			}
		}
		return false
	}
	return visit(t)
}
