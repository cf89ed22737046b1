package decode

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
)

// reader decodes values of a type quickly. A Codec makes it once.
type reader struct {
	typ     reflect.Type
	does    manner
	members []member // of a struct, with those of the structs that are embedded in it
	elem    *reader  // the element of a list or a pointer
	spare   int      // for a list: the index of its reused memory
	table   int      // the index of the type's table; -1 if it is not shared
	clips   bool
	// holdsShared is true for a type that is left to the library and contains shared types.
	holdsShared bool
}

// manner is the way of decoding a type.
type manner uint8

const (
	whatever manner = iota // by the library
	texts
	integers
	booleans
	times
	objects
	lists
	pointers
	textMaps  // whose keys and values are strings
	resources // lists of them, which are in maps
	methods   // the type's own UnmarshalJSON, if the value is a string
	nothing   // the value is skipped
)

// member is a field of a struct.
type member struct {
	name   string
	offset uintptr
	reader *reader
}

// mostMembers is the largest number of members of a struct.
const mostMembers = 128

// find returns the index of the member with a name, or -1. Most members come in the order of the
// fields, so it begins with the next one.
func (r *reader) find(name []byte, next int) int {
	for i := next; i < len(r.members); i++ {
		if r.members[i].name == string(name) {
			return i
		}
	}
	for i := range min(next, len(r.members)) {
		if r.members[i].name == string(name) {
			return i
		}
	}
	return -1
}

// readers makes the readers of all types within one type.
type readers struct {
	settings *settings
	made     map[reflect.Type]*reader
	tables   int
	lists    int
}

func (m *readers) reader(t reflect.Type) *reader {
	if r, ok := m.made[t]; ok {
		return r
	}
	r := &reader{typ: t, table: -1}
	m.made[t] = r
	if _, ok := m.settings.shares[t]; ok {
		r.table, r.clips = m.tables, hasSlices(t, nil)
		m.tables++
	}
	switch {
	case t == timeType:
		r.does = times
	case t == managedFieldsType && m.settings.skipManagedFields:
		r.does = nothing
	case decodesItself(t):
		if p := reflect.PointerTo(t); p.Implements(unmarshalerType) && !p.Implements(unmarshalerFromType) {
			r.does = methods
		}
	default:
		m.byKind(r)
		r.holdsShared = r.does == whatever && m.shares(t)
	}
	return r
}

// decodesItself reports whether a type has its own methods for decoding.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(unmarshalerType) || p.Implements(unmarshalerFromType) || p.Implements(textUnmarshalerType)
}

// shares reports whether t contains shared types.
func (m *readers) shares(t reflect.Type) bool {
	for inside := range shapeOf(t).types {
		if _, ok := m.settings.shares[inside]; ok && inside != t {
			return true
		}
	}
	return false
}

func (m *readers) byKind(r *reader) {
	t := r.typ
	switch t.Kind() {
	case reflect.String:
		if t != numberType {
			r.does = texts
		}
	case reflect.Bool:
		r.does = booleans
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		r.does = integers
	case reflect.Pointer:
		r.does, r.elem = pointers, m.reader(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // bytes are text
			r.does, r.elem, r.spare = lists, m.reader(t.Elem()), m.lists
			m.lists++
		}
	case reflect.Map:
		if t == reflect.TypeFor[map[string]string]() {
			r.does = textMaps
		} else if t == reflect.TypeFor[corev1.ResourceList]() {
			r.does = resources
		}
	case reflect.Struct:
		if m.addMembers(r, t, 0) && len(r.members) <= mostMembers {
			r.does = objects
		}
	}
}

// addMembers adds the fields of a struct at an offset in r's struct. It returns false if the
// mapping from members to fields is ambiguous.
func (m *readers) addMembers(r *reader, t reflect.Type, offset uintptr) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
			continue
		case !isUsual(tag):
			return false
		case f.Anonymous && name == "":
			if f.Type.Kind() != reflect.Struct || decodesItself(f.Type) || !m.addMembers(r, f.Type, offset+f.Offset) {
				return false
			}
			continue
		case !f.IsExported():
			if f.Anonymous {
				return false
			}
			continue
		case strings.Contains(options, "inline"):
			return false
		case name == "":
			name = f.Name
		}
		for _, other := range r.members {
			if other.name == name {
				return false
			}
		}
		r.members = append(r.members, member{name: name, offset: offset + f.Offset, reader: m.reader(f.Type)})
	}
	return true
}

// isValid reports whether b is one JSON value by the rules of Kubernetes.
func isValid(b []byte) bool {
	return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// newQuick returns a quick decoder for the codec's type.
func (c *Codec[T]) newQuick(d *jsonDecoder) *quick {
	c.quickly.Do(func() {
		m := &readers{settings: &c.settings, made: map[reflect.Type]*reader{}}
		if root := m.reader(c.elem); root.does == objects && c.settings.reportUnknown == nil {
			c.root, c.tables, c.lists = root, m.tables, m.lists
		}
	})
	if c.root == nil {
		return nil
	}
	return &quick{root: c.root, library: d, tables: make([]table[reflect.Value], c.tables), spares: make([]reflect.Value, c.lists)}
}
