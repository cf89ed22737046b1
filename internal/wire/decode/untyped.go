package decode

import (
	"errors"
	"hash/maphash"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/kubereflector/kubereflector/internal/wire"
)

// untyped decodes values into an any, as utiljson does: numbers without a point become int64. It
// accepts only valid JSON. It gives up a value that is too deep, or that has a number which fits
// neither an int64 nor a float64.
type untyped struct {
	strings interned
	// tables share objects and arrays with the same bytes, by the name of the member that has them;
	// nil without sharing. Names with the same hash have one table, which is made for the first of them.
	tables *[untypedTables]*table[any]
	kept   *int // bytes of the keys in all tables of the decoder
	// empty is every empty object.
	empty any
	// skipManagedFields applies to objects whose metadata has the depth 2.
	skipManagedFields, metadata bool

	b           []byte
	depth, most int
	stack       []untypedMember // of the open objects and arrays
}

// untypedMember is a member of an object, or an element of an array.
type untypedMember struct {
	name  string
	value any
}

const (
	// untypedTables is a power of two.
	untypedTables = 64
	// mostShared is the largest depth of shared values: each level scans and hashes its bytes.
	mostShared = 16
	// mostStack is the largest number of members whose memory stays.
	mostStack = 4096
)

// at decodes the value at i, and returns its end. The value belongs to a member with a name.
func (u *untyped) at(i int, name string) (value any, end int, ok bool) {
	i += space(u.b[i:])
	switch c := at(u.b, i); c {
	case '"':
		text, end, ok := u.strings.textAt(u.b, i)
		if !ok {
			return nil, 0, false
		}
		return u.strings.box(text), end, true
	case '{', '[':
		return u.shared(i, name)
	case 'n', 't', 'f':
		end, ok = literal(u.b, i)
		if c != 'n' {
			value = c == 't'
		}
		return value, end, ok
	}
	if n, end, ok := integerAt(u.b, i); ok {
		return n, end, true
	}
	if end, _, ok = numberEnd(u.b, i); !ok {
		return nil, 0, false
	}
	f, err := strconv.ParseFloat(string(u.b[i:end]), 64)
	return f, end, err == nil
}

// shared looks the object or array at i up before it decodes it, except for the outermost value.
func (u *untyped) shared(i int, name string) (value any, end int, ok bool) {
	if u.tables == nil || u.depth == 0 || u.depth > mostShared || u.depth == 1 && u.metadata {
		return u.inside(i)
	}
	if at(u.b, i+1) == u.b[i]+2 {
		if u.b[i] == '{' {
			return u.empty, i + 2, true
		}
		return emptyArray, i + 2, true
	}
	known := u.tables[maphash.String(seed, name)%untypedTables]
	if known == nil {
		known = &table[any]{kept: u.kept}
		u.tables[maphash.String(seed, name)%untypedTables] = known
	}
	if !known.open() {
		return u.inside(i)
	}
	n := wire.ValueLength(u.b[i:])
	if n <= 0 {
		return nil, 0, false
	}
	raw := u.b[i : i+n]
	value, answer, ok := known.get(raw)
	if ok {
		return value, i + n, true
	}
	value, end, ok = u.inside(i)
	if ok = ok && end == i+n; ok {
		known.put(answer, raw, value)
	}
	return value, end, ok
}

// emptyArray is every empty array, of which managed fields have many. It cannot be changed.
var emptyArray any = []any{}

// inside decodes the object or array at i.
func (u *untyped) inside(i int) (value any, end int, ok bool) {
	if u.depth++; u.depth > u.most {
		return nil, 0, false
	}
	begin := len(u.stack)
	open := u.b[i]
	if end, ok = u.members(i+1, open); !ok {
		return nil, 0, false
	}
	came := u.stack[begin:]
	if open == '[' {
		array := make([]any, len(came))
		for i := range came {
			array[i] = came[i].value
		}
		value = array
	} else {
		object := make(map[string]any, len(came))
		for i := range came {
			object[came[i].name] = came[i].value
		}
		value = object
	}
	clear(came)
	u.stack = u.stack[:begin]
	u.depth--
	return value, end, true
}

// members puts all members or elements on the stack. It returns the end of the object or array.
func (u *untyped) members(i int, open byte) (end int, ok bool) {
	i += space(u.b[i:])
	if at(u.b, i) == open+2 {
		return i + 1, true
	}
	for {
		var m untypedMember
		if open == '{' {
			if i += space(u.b[i:]); at(u.b, i) != '"' {
				return 0, false
			}
			name, end, ok := u.strings.textAt(u.b, i)
			if !ok {
				return 0, false
			}
			m.name = u.strings.text(name)
			if i = end + space(u.b[end:]); at(u.b, i) != ':' {
				return 0, false
			}
			i++
		}
		if u.skips(m.name) {
			i += space(u.b[i:])
			i, ok = pass(u.b, i, u.most-u.depth)
		} else {
			m.value, i, ok = u.at(i, m.name)
			u.stack = append(u.stack, m)
		}
		if !ok {
			return 0, false
		}
		switch i += space(u.b[i:]); at(u.b, i) {
		case ',':
			i++
		case open + 2: // the closing bracket
			return i + 1, true
		default:
			return 0, false
		}
	}
}

// skips reports whether to skip a member.
func (u *untyped) skips(name string) bool {
	if u.depth == 1 {
		u.metadata = name == "metadata"
	}
	return u.skipManagedFields && u.depth == 2 && u.metadata && name == "managedFields"
}

// space returns the length of the whitespace at the beginning of b.
func space(b []byte) (n int) {
	for n < len(b) && (b[n] == ' ' || b[n] == '\n' || b[n] == '\r' || b[n] == '\t') {
		n++
	}
	return n
}

// decode decodes the value at i. Its objects and arrays may be so deep.
func (u *untyped) decode(b []byte, i, most int) (any, int, bool) {
	u.b, u.depth, u.most = b, 0, most
	value, end, ok := u.at(i, "")
	if u.b = nil; !ok {
		clear(u.stack)
		u.stack = u.stack[:0]
	}
	if cap(u.stack) > mostStack {
		u.stack = nil
	}
	return value, end, ok
}

var errNumber = errors.New("a number is too large")

// read decodes an any for the library, which would turn every number into a float64.
func (u *untyped) read(dec *jsontext.Decoder, into *any) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	value, _, ok := u.decode(raw, 0, libraryDepth)
	if !ok {
		return errNumber // the library validated the rest
	}
	*into = value
	return nil
}
