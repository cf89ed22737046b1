package decode

import (
	"encoding/base64"
	gojson "encoding/json"
	"reflect"
	"slices"
	"unsafe"

	"github.com/kubereflector/kubereflector/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quick decodes JSON and protobuf in the form that API servers write: JSON without whitespace, each
// member and field once. It looks up shared values before their validation. It leaves few values of
// JSON to the library. If anything is unusual, quick gives the object up. Then the library or the
// generated method decodes the whole object without sharing. So quick decides neither which input is
// accepted nor the text of an error.
type quick struct {
	root    *reader
	library *jsonDecoder // decodes the values that quick leaves
	tables  []table[reflect.Value]
	kept    int             // bytes of the keys in all tables
	spares  []reflect.Value // for the readers of lists: reused memory for elements
	untyped untyped

	depth int
}

const (
	// mostDepth is the largest depth of nested values that quick decodes.
	mostDepth = 200
	// libraryDepth is the library's limit.
	libraryDepth = 10_000
)

// decode decodes an object into the zero value at p, and reports success.
func (q *quick) decode(data []byte, p unsafe.Pointer) bool {
	q.depth = 0
	n, ok := q.own(q.root, p, data, 0)
	return q.done(ok && n == len(data))
}

// done bounds the memory of the tables after an object, and returns ok.
func (q *quick) done(ok bool) bool {
	if q.kept > mostKept {
		for i := range q.tables {
			q.tables[i].turn()
		}
		if q.untyped.tables != nil {
			for _, table := range q.untyped.tables {
				if table != nil {
					table.turn()
				}
			}
		}
	}
	return ok
}

// value decodes the value at i into p, and returns its end. It looks it up in a table, unless the
// table is -1. It returns false if quick must give the object up.
func (q *quick) value(r *reader, table int, p unsafe.Pointer, b []byte, i int) (int, bool) {
	if table < 0 || at(b, i) == 'n' || !q.tables[table].open() {
		return q.own(r, p, b, i)
	}
	n := wire.ValueLength(b[i:])
	if n <= 0 {
		return 0, false
	}
	into, raw := reflect.NewAt(r.typ, p).Elem(), b[i:i+n]
	known, answer, ok := q.tables[table].get(raw)
	if ok {
		into.Set(known)
		return i + n, true
	}
	if end, ok := q.own(r, p, b, i); !ok || end != i+n {
		return 0, false
	}
	q.share(r, table, answer, raw, into)
	return i + n, true
}

// share stores a value if the answer asks for it.
func (q *quick) share(r *reader, table int, a answer, raw []byte, value reflect.Value) {
	if !a.keep {
		return
	}
	clip(value)
	kept := reflect.New(r.typ).Elem()
	kept.Set(value)
	q.tables[table].put(a, raw, kept)
}

// own decodes a value without a lookup.
func (q *quick) own(r *reader, p unsafe.Pointer, b []byte, i int) (int, bool) {
	switch c := at(b, i); {
	case c == 'n' && r.does != methods && r.does != whatever:
		return literal(b, i) // the value stays zero
	case r.does == texts && c == '"':
		text, end, ok := q.untyped.strings.textAt(b, i)
		if ok {
			*(*string)(p) = q.untyped.strings.text(text)
		}
		return end, ok
	case r.does == objects && c == '{', r.does == lists && c == '[', r.does == nameMaps && c == '{':
		return q.inside(r, p, b, i)
	case r.does == pointers:
		v := reflect.New(r.elem.typ)
		*(*unsafe.Pointer)(p) = v.UnsafePointer()
		return q.value(r.elem, r.elem.table, v.UnsafePointer(), b, i)
	case r.does == textMaps && c == '{':
		return q.textMap((*map[string]string)(p), b, i)
	case r.does == methods && c != 'n':
		if end, ok := pass(b, i, mostDepth-q.depth); ok {
			method := reflect.NewAt(r.typ, p).Interface().(gojson.Unmarshaler)
			return end, method.UnmarshalJSON(b[i:end:end]) == nil
		}
	case r.does == integers:
		if end, ok := r.integer(p, b, i); ok {
			return end, true
		}
	case r.does == floats:
		if end, ok := r.float(p, b, i); ok {
			return end, true
		}
	case r.does == booleans && (c == 't' || c == 'f'):
		*(*bool)(p) = c == 't'
		return literal(b, i)
	case r.does == times && c == '"' && i+len(layout) <= len(b):
		if t, ok := parseTime(b[i : i+len(layout)]); ok {
			(*metav1.Time)(p).Time = t
			return i + len(layout), true
		}
	case r.does == blobs && c == '"':
		if end, ok := plainText(b, i+1); ok {
			blob, err := base64.StdEncoding.AppendDecode([]byte{}, b[i+1:end])
			*(*[]byte)(p) = slices.Clip(blob)
			return end + 1, err == nil
		}
	case r.does == anything, r.does == trees && c == '{':
		value, end, ok := q.untyped.decode(b, i, mostDepth-q.depth)
		if ok && r.does == trees {
			*(*map[string]any)(p) = value.(map[string]any)
		} else if ok {
			*(*any)(p) = value
		}
		return end, ok
	case r.does == nothing:
		return pass(b, i, mostDepth-q.depth)
	}
	return q.leave(r, p, b, i)
}

// leave lets the library decode a value.
func (q *quick) leave(r *reader, p unsafe.Pointer, b []byte, i int) (int, bool) {
	end, ok := pass(b, i, mostDepth-q.depth)
	return end, ok && q.library.unmarshal(b[i:end], reflect.NewAt(r.typ, p).Interface(), q.library.plain) == nil
}

// inside decodes a list, a struct or a map.
func (q *quick) inside(r *reader, p unsafe.Pointer, b []byte, i int) (end int, ok bool) {
	if q.depth++; q.depth > mostDepth {
		return 0, false
	}
	switch r.does {
	case lists:
		end, ok = q.list(r, p, b, i)
	case nameMaps:
		end, ok = q.generalMap(r, p, b, i)
	default:
		end, ok = q.object(r, p, b, i)
	}
	q.depth--
	return end, ok
}

func (q *quick) object(r *reader, p unsafe.Pointer, b []byte, i int) (int, bool) {
	if at(b, i+1) == '}' {
		return i + 2, true
	}
	var seen [mostMembers / 64]uint64
	next := 0
	for {
		name, value, ok := memberAt(b, i+1)
		if !ok {
			return 0, false
		}
		if n := r.find(name, next); n < 0 {
			i, ok = pass(b, value, mostDepth-q.depth)
		} else {
			bit := uint64(1) << (n % 64)
			if seen[n/64]&bit != 0 {
				return 0, false // the library handles repeated members
			}
			seen[n/64] |= bit
			next = n + 1
			m := &r.members[n]
			i, ok = q.value(m.reader, m.table, unsafe.Add(p, m.offset), b, value)
		}
		if !ok {
			return 0, false
		}
		switch at(b, i) {
		case ',':
		case '}':
			return i + 1, true
		default:
			return 0, false
		}
	}
}

// list decodes elements in reused memory, and copies them to a slice of the exact size.
func (q *quick) list(r *reader, p unsafe.Pointer, b []byte, i int) (int, bool) {
	into := reflect.NewAt(r.typ, p).Elem() // is nil
	if at(b, i+1) == ']' {
		into.Set(reflect.MakeSlice(r.typ, 0, 0))
		return i + 2, true
	}
	spare := q.spares[r.spare]
	q.spares[r.spare] = reflect.Value{} // it is in use, and unusable if quick gives the object up
	if !spare.IsValid() {
		spare = reflect.New(r.typ).Elem()
		spare.Grow(4)
	}
	n := 0
	for more := true; more; n++ {
		if n == spare.Cap() {
			spare.Grow(n)
		}
		spare.SetLen(n + 1)
		var ok bool
		if i, ok = q.value(r.elem, r.elem.table, unsafe.Add(spare.UnsafePointer(), uintptr(n)*r.elem.typ.Size()), b, i+1); !ok {
			return 0, false
		}
		switch at(b, i) {
		case ',':
		case ']':
			more = false
		default:
			return 0, false
		}
	}
	into.Grow(n)
	into.SetLen(n)
	into.SetCap(n)
	reflect.Copy(into, spare)
	if n <= mostSpare {
		spare.Clear()
		spare.SetLen(0)
		q.spares[r.spare] = spare
	}
	return i + 1, true
}

// mostSpare is the largest number of elements in the reused memory of a list.
const mostSpare = 64

// entries calls each for the entries of a map at i: with the name, and the index of the value. each
// returns the end of the value.
func (q *quick) entries(b []byte, i int, each func(name string, value int) (int, bool)) (int, bool) {
	if at(b, i+1) == '}' {
		return i + 2, true
	}
	for {
		if i++; at(b, i) != '"' {
			return 0, false
		}
		text, end, ok := q.untyped.strings.textAt(b, i)
		if !ok || at(b, end) != ':' {
			return 0, false
		}
		if i, ok = each(q.untyped.strings.text(text), end+1); !ok {
			return 0, false
		}
		switch at(b, i) {
		case ',':
		case '}':
			return i + 1, true
		default:
			return 0, false
		}
	}
}

func (q *quick) textMap(into *map[string]string, b []byte, i int) (int, bool) {
	m := map[string]string{}
	*into = m
	return q.entries(b, i, func(name string, value int) (int, bool) {
		before := len(m)
		if at(b, value) == 'n' {
			m[name] = ""
			end, ok := literal(b, value)
			return end, ok && len(m) > before // the library handles a repeated name
		}
		if at(b, value) != '"' {
			return 0, false
		}
		text, end, ok := q.untyped.strings.textAt(b, value)
		m[name] = q.untyped.strings.text(text)
		return end, ok && len(m) > before
	})
}

// generalMap decodes a map whose keys are strings.
func (q *quick) generalMap(r *reader, p unsafe.Pointer, b []byte, i int) (int, bool) {
	m := reflect.MakeMap(r.typ)
	reflect.NewAt(r.typ, p).Elem().Set(m)
	elem := reflect.New(r.elem.typ)
	return q.entries(b, i, func(name string, value int) (int, bool) {
		elem.Elem().SetZero()
		end, ok := q.value(r.elem, r.elem.table, elem.UnsafePointer(), b, value)
		before := m.Len()
		m.SetMapIndex(reflect.ValueOf(name).Convert(r.typ.Key()), elem.Elem())
		return end, ok && m.Len() > before
	})
}
