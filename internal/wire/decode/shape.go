package decode

import (
	"encoding"
	gojson "encoding/json"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
)

// shape is what a type holds, as far as decoding JSON into it goes.
type shape struct {
	// types are all types that a value of it can hold, but for what has methods of its own
	// to decode itself.
	types map[reflect.Type]bool
	// odd means that there is a type or tag which encoding/json and its successor, or the
	// two modules that stand for them here, do not or may not understand in the same way.
	odd bool
	// keeps means that there is a type whose methods may keep the bytes that they are given.
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
	case reflect.Complex64, reflect.Complex128, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		s.odd = true
	}
}

// foreign reports whether a type is of somebody who may not know that methods have to copy what they
// keep. The standard library and Kubernetes do.
func foreign(t reflect.Type) bool {
	switch path := t.PkgPath(); path {
	case "encoding/json", "math/big", "net", "net/netip", "time":
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
		s.odd = true // says the library: names that collide, for instance
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

// isUsual reports whether a tag has nothing in it that could mean two things.
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
