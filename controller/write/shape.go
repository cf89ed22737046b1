package write

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// shape is what a Go type shows of a JSON value. A nil type shows what it prints: it is that of free-form
// data, such as an Unstructured or a map[string]any, and of a type that encodes itself.
type shape struct{ t reflect.Type }

// field is one member that a struct shows.
type field struct {
	shape    shape
	mergeKey string // of a list: the tag patchMergeKey, by which Kubernetes matches its items
	index    []int  // for reflect.Value.FieldByIndex
	value    bool   // a struct, and not a pointer: it is never absent, though JSON may leave out a zero
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// shapeOf returns the shape of a type.
func shapeOf(t reflect.Type) shape {
	for t != nil {
		switch {
		case t.Kind() == reflect.Interface, implements(t, jsonMarshaler), implements(t, textMarshaler):
			return shape{}
		case t.Kind() != reflect.Pointer:
			return shape{t}
		}
		t = t.Elem()
	}
	return shape{}
}

func implements(t, i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }

// isStruct reports whether the shape names the members that it shows.
func (s shape) isStruct() bool { return s.t != nil && s.t.Kind() == reflect.Struct }

func (s shape) isMap() bool { return s.t != nil && s.t.Kind() == reflect.Map }

// isBuiltIn reports whether the shape is a struct of Kubernetes' own types, as metadata is for all kinds. Their
// servers take an empty map for none.
func (s shape) isBuiltIn() bool {
	return s.isStruct() && (strings.HasPrefix(s.t.PkgPath(), "k8s.io/api/") || strings.HasPrefix(s.t.PkgPath(), "k8s.io/apimachinery/"))
}

// member returns the member with a name, and whether the shape shows it.
func (s shape) member(name string) (f field, shown bool) {
	switch {
	case s.t == nil:
		return field{}, true
	case s.isMap():
		return field{shape: shapeOf(s.t.Elem())}, true
	case s.t.Kind() == reflect.Struct:
		f, shown = fieldsOfStruct(s.t)[name]
		return f, shown
	default:
		return field{}, false
	}
}

// item returns the shape of a list's items.
func (s shape) item() shape {
	if s.t != nil && (s.t.Kind() == reflect.Slice || s.t.Kind() == reflect.Array) {
		return shapeOf(s.t.Elem())
	}
	return shape{}
}

// showsAll reports whether the Go value that prints as shown has every member of a value, on all
// levels. A struct names its members. A type that encodes itself names none, so its value has those that
// it prints.
func (s shape) showsAll(value, shown any) bool {
	switch value := value.(type) {
	case map[string]any:
		printed, _ := shown.(map[string]any)
		for name, v := range value {
			f, named := s.member(name)
			if _, has := printed[name]; s.t == nil {
				named = has || v == nil
			}
			if !named || !f.shape.showsAll(v, printed[name]) {
				return false
			}
		}
	case []any:
		printed, _ := shown.([]any)
		if len(printed) < len(value) {
			return false
		}
		for i, v := range value {
			if !s.item().showsAll(v, printed[i]) {
				return false
			}
		}
	}
	return true
}

// isServers reports whether the shape is that of a kind of Kubernetes itself, whose server decodes into the same Go
// type, and stores protobuf.
func (s shape) isServers() bool { return s.t != nil && strings.HasPrefix(s.t.PkgPath(), "k8s.io/api/") }

// withoutNulls removes the members of structs that are null. Such a null stands for a nil pointer,
// slice or map, so the member is absent. Nulls in free-form data and in maps stay. If lists is
// true, empty lists are removed, too: a server that stores protobuf returns none.
func (s shape) withoutNulls(value any, lists bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			list, isList := v.([]any)
			if s.isStruct() && (v == nil || lists && isList && len(list) == 0) {
				delete(value, name)
				continue
			}
			f, _ := s.member(name)
			f.shape.withoutNulls(v, lists)
		}
	case []any:
		for _, v := range value {
			s.item().withoutNulls(v, lists)
		}
	}
}

// structs caches the members of structs: reflect.Type to map[string]field.
var structs sync.Map

func fieldsOfStruct(t reflect.Type) map[string]field {
	if known, ok := structs.Load(t); ok {
		return known.(map[string]field)
	}
	fields := findFields(t)
	structs.Store(t, fields)
	return fields
}

// embedded is a struct that another one embeds.
type embedded struct {
	t       reflect.Type
	at      []int
	several bool // at this depth, so its own members are ambiguous
}

// findFields returns the members that encoding/json prints of a struct. The fields of structs that are embedded
// without a name count as the outer one's. Of several with one name, the least deeply embedded is the member; of several
// that are equally deep, the only one whose tag has the name, and otherwise none.
func findFields(t reflect.Type) map[string]field {
	fields, taken, within := map[string]field{}, map[string]bool{}, map[reflect.Type]bool{}
	for depth := []embedded{{t: t}}; len(depth) > 0; {
		var next []embedded
		named, unnamed := map[string][]field{}, map[string][]field{} // by tag, and by the name of the field
		for _, e := range depth {
			if !within[e.t] { // otherwise the same type, less deep, hides all that it has
				next = e.addFields(named, unnamed, next)
			}
		}
		for _, among := range []map[string][]field{named, unnamed} {
			for name, of := range among {
				if len(of) == 1 && !taken[name] {
					fields[name] = of[0]
				}
			}
			for name := range among {
				taken[name] = true
			}
		}
		for _, e := range depth {
			within[e.t] = true
		}
		depth = next
	}
	return fields
}

// addFields adds the fields of a struct to those of its depth, and returns next with the structs that it embeds.
func (e embedded) addFields(named, unnamed map[string][]field, next []embedded) []embedded {
	for i := range e.t.NumField() {
		f := e.t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		index := append(slices.Clone(e.at), i)
		switch {
		case tag == "-", !f.IsExported() && (!f.Anonymous || of.Kind() != reflect.Struct):
		case f.Anonymous && name == "" && of.Kind() == reflect.Struct:
			if n := slices.IndexFunc(next, func(other embedded) bool { return other.t == of }); n >= 0 {
				next[n].several = true
			} else {
				next = append(next, embedded{t: of, at: index})
			}
		default:
			among := named
			if name == "" {
				name, among = f.Name, unnamed
			}
			member := field{
				shape: shapeOf(f.Type), mergeKey: f.Tag.Get("patchMergeKey"), index: index,
				value: f.Type.Kind() == reflect.Struct && shapeOf(f.Type).isStruct(),
			}
			if among[name] = append(among[name], member); e.several {
				among[name] = append(among[name], member)
			}
		}
	}
	return next
}
