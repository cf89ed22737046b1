package decode

import (
	"reflect"
	"strings"
)

// reader decodes values of a type quickly. A Codec makes it once.
type reader struct {
	typ     reflect.Type
	kind    reflect.Kind
	does    manner
	members []member // of a struct, with those of the structs that are embedded in it
	elem    *reader  // the element of a list, a pointer or a map
	spare   int      // for a list: the index of its reused memory
	table   int      // for elements: the index of their table; -1 if the type is not shared
	fields  []field  // of a protobuf message, by number; nil if its own method decodes it
}

// manner is the way of decoding a type.
type manner uint8

const (
	whatever manner = iota // by the library
	texts
	blobs // in base64
	integers
	floats
	booleans
	times
	objects
	lists
	pointers
	textMaps // whose keys and values are strings
	nameMaps // other maps whose keys are strings
	anything // an any
	trees    // objects whose values are any
	methods  // the type's own UnmarshalJSON
	nothing  // the value is skipped
)

// member is a field of a struct.
type member struct {
	name   string
	offset uintptr
	reader *reader
	table  int // -1 if the type is not shared
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
	options *Options
	made    map[reflect.Type]*reader
	tables  int
	lists   int
}

func (m *readers) reader(t reflect.Type) *reader {
	if r, ok := m.made[t]; ok {
		return r
	}
	r := &reader{typ: t, kind: t.Kind(), table: m.table(t)}
	m.made[t] = r
	r.elem = m.elem(t)
	m.addFields(r)
	switch {
	case t == timeType:
		r.does = times
	case t == managedFieldsType && m.options.SkipManagedFields:
		r.does = nothing
	case decodesItself(t):
		if p := reflect.PointerTo(t); p.Implements(unmarshalerType) && !p.Implements(unmarshalerFromType) {
			r.does = methods
		}
	default:
		m.byKind(r)
	}
	return r
}

// elem returns the reader of the elements of a list, a pointer or a map with names.
func (m *readers) elem(t reflect.Type) *reader {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return m.reader(t.Elem())
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return m.reader(t.Elem())
		}
	}
	return nil
}

// table returns a new table for values of a type, or -1. Each field has its own, because a type may
// repeat in one field and not in another: labels do, annotations often do not.
func (m *readers) table(t reflect.Type) int {
	if !m.options.shares(t) {
		return -1
	}
	m.tables++
	return m.tables - 1
}

// decodesItself reports whether a type has its own methods for decoding.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(unmarshalerType) || p.Implements(unmarshalerFromType) || p.Implements(textUnmarshalerType)
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
	case reflect.Float32, reflect.Float64:
		r.does = floats
	case reflect.Interface:
		if t.NumMethod() == 0 {
			r.does = anything
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		r.does = integers
	case reflect.Pointer:
		r.does = pointers
	case reflect.Slice:
		if t.Elem() == reflect.TypeFor[byte]() {
			r.does = blobs
		} else if t.Elem().Kind() != reflect.Uint8 {
			r.does, r.spare = lists, m.lists
			m.lists++
		}
	case reflect.Map:
		switch key := t.Key(); {
		case t == reflect.TypeFor[map[string]string]():
			r.does = textMaps
		case t == treeType:
			r.does = trees
		case key.Kind() == reflect.String && key != numberType && !decodesItself(key):
			r.does = nameMaps
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
		r.members = append(r.members, member{name: name, offset: offset + f.Offset, reader: m.reader(f.Type), table: m.table(f.Type)})
	}
	return true
}

// newQuick returns a quick decoder for the codec's type.
func (c *Codec[T]) newQuick(d *jsonDecoder) *quick {
	c.quickly.Do(func() {
		m := &readers{options: &c.options, made: map[reflect.Type]*reader{}}
		if c.elem == unstructuredType {
			c.root = &reader{typ: treeType, does: trees} // its only field
			return
		}
		c.root = m.reader(c.elem)
		c.tables, c.lists = m.tables, m.lists
	})
	q := &quick{root: c.root, library: d, tables: make([]table[reflect.Value], c.tables), spares: make([]reflect.Value, c.lists)}
	for i := range q.tables {
		q.tables[i].kept = &q.kept
	}
	if c.options.shares(treeType) {
		q.untyped.tables, q.untyped.kept, q.untyped.empty = new([untypedTables]*table[any]), &q.kept, map[string]any{}
	}
	q.untyped.skipManagedFields = c.options.SkipManagedFields && c.elem == unstructuredType
	return q
}
