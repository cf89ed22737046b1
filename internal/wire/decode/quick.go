package decode

import (
	gojson "encoding/json"
	"reflect"
	"unsafe"

	"github.com/kubereflector/kubereflector/internal/wire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quick decodes JSON in the form that API servers write: without whitespace, each member once. It
// walks structs, lists and pointers itself. It looks up shared values before their validation. It
// leaves each value outside of its simple forms to the library. If anything is unusual, quick gives
// the object up, and the library decodes the whole object. So quick decides neither which input is
// accepted nor the text of an error.
type quick struct {
	root    *reader
	library *jsonDecoder // decodes the values that quick leaves
	tables  []table[reflect.Value]
	spares  []reflect.Value // for the readers of lists: reused memory for elements
	strings interned

	shares bool // for the current object
	depth  int
	// After quick gave an object up, it skips so many objects, and more each time.
	pause, last int
}

const (
	// mostDepth is the largest depth of nested values; the library has its own limit.
	mostDepth = 200
	// mostQuickPause is the largest number of skipped objects after quick gave one up.
	mostQuickPause = 1024
)

// open reports whether to try quick decoding.
func (q *quick) open() bool {
	if q == nil || q.root == nil {
		return false
	}
	if q.pause > 0 {
		q.pause--
		return false
	}
	return true
}

// decode decodes an object into the zero value at p, and reports success.
func (q *quick) decode(data []byte, p unsafe.Pointer, shares bool) bool {
	q.shares, q.depth = shares, 0
	n, ok := q.value(q.root, p, data, 0)
	if ok = ok && n == len(data); ok {
		q.last = 0
		return true
	}
	q.last = min(max(2*q.last, 1), mostQuickPause)
	q.pause = q.last
	return false
}

// value decodes the value at i into p, and returns its end. It returns false if quick must give the
// object up.
func (q *quick) value(r *reader, p unsafe.Pointer, b []byte, i int) (int, bool) {
	if r.table < 0 || !q.shares || at(b, i) == 'n' || !q.tables[r.table].open() {
		return q.own(r, p, b, i)
	}
	n := wire.ValueLength(b[i:])
	if n <= 0 {
		return 0, false
	}
	known, raw := &q.tables[r.table], b[i:i+n]
	x, answer, ok := known.get(raw)
	into := reflect.NewAt(r.typ, p).Elem()
	if ok {
		q.library.found += n
		into.Set(x)
		return i + n, true
	}
	if end, ok := q.own(r, p, b, i); !ok || end != i+n {
		return 0, false
	}
	if answer.keep {
		if r.clips {
			clip(into)
		}
		x = reflect.New(r.typ).Elem()
		x.Set(into)
		known.put(answer, raw, x)
	}
	return i + n, true
}

// own decodes a value without a lookup.
func (q *quick) own(r *reader, p unsafe.Pointer, b []byte, i int) (int, bool) {
	switch c := at(b, i); {
	case c == 'n':
	case r.does == texts && c == '"':
		if end, ok := plainText(b, i+1); ok {
			*(*string)(p) = q.strings.text(b[i+1 : end])
			return end + 1, true
		}
	case r.does == objects && c == '{', r.does == lists && c == '[':
		return q.inside(r, p, b, i)
	case r.does == pointers:
		v := reflect.New(r.elem.typ)
		*(*unsafe.Pointer)(p) = v.UnsafePointer()
		return q.value(r.elem, v.UnsafePointer(), b, i)
	case r.does == textMaps && c == '{':
		if m, end, ok := q.textMap(b, i); ok {
			*(*map[string]string)(p) = m
			return end, true
		}
	case r.does == resources && c == '{':
		if l, end, ok := q.resources(b, i); ok {
			*(*corev1.ResourceList)(p) = l
			return end, true
		}
	case r.does == methods && c == '"':
		if end, ok := plainText(b, i+1); ok {
			method := reflect.NewAt(r.typ, p).Interface().(gojson.Unmarshaler)
			return end + 1, method.UnmarshalJSON(b[i:end+1:end+1]) == nil
		}
	case r.does == integers:
		if end, ok := r.integer(p, b, i); ok {
			return end, true
		}
	case r.does == booleans:
		if end, ok := boolean(p, b, i); ok {
			return end, true
		}
	case r.does == times && c == '"' && i+len(layout) <= len(b):
		if t, ok := parseTime(b[i : i+len(layout)]); ok {
			(*metav1.Time)(p).Time = t
			return i + len(layout), true
		}
	case r.does == nothing:
		return skip(b, i)
	}
	return q.leave(r, p, b, i)
}

// leave lets the library decode a value.
func (q *quick) leave(r *reader, p unsafe.Pointer, b []byte, i int) (int, bool) {
	options := q.library.plain
	if q.shares && r.holdsShared {
		options = q.library.sharing
	}
	n := wire.ValueLength(b[i:])
	if n <= 0 || tooDeep(b[i:i+n]) || q.library.unmarshal(b[i:i+n], reflect.NewAt(r.typ, p).Interface(), options) != nil {
		return 0, false
	}
	return i + n, true
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
			i, ok = skip(b, value)
		} else {
			bit := uint64(1) << (n % 64)
			if seen[n/64]&bit != 0 {
				return 0, false // the library handles repeated members
			}
			seen[n/64] |= bit
			next = n + 1
			i, ok = q.value(r.members[n].reader, unsafe.Add(p, r.members[n].offset), b, value)
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
		if i, ok = q.value(r.elem, unsafe.Add(spare.UnsafePointer(), uintptr(n)*r.elem.typ.Size()), b, i+1); !ok {
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

func (q *quick) textMap(b []byte, i int) (map[string]string, int, bool) {
	m := map[string]string{}
	end, ok := textMembers(b, i, func(name, value []byte) bool {
		before := len(m)
		m[q.strings.text(name)] = q.strings.text(value[1 : len(value)-1])
		return len(m) > before // the library handles a repeated name
	})
	return m, end, ok
}

func (q *quick) resources(b []byte, i int) (corev1.ResourceList, int, bool) {
	l := corev1.ResourceList{}
	end, ok := textMembers(b, i, func(name, value []byte) bool {
		var quantity resource.Quantity
		if quantity.UnmarshalJSON(value) != nil {
			return false
		}
		before := len(l)
		l[corev1.ResourceName(q.strings.text(name))] = quantity
		return len(l) > before
	})
	return l, end, ok
}
