package decode

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"unsafe"

	"github.com/kubereflector/kubereflector/internal/wire"
)

// at returns a byte, or 0 after the end.
func at(b []byte, i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0
}

// memberAt returns the name of a member, and the index of its value.
func memberAt(b []byte, i int) (name []byte, value int, ok bool) {
	if at(b, i) != '"' {
		return nil, 0, false
	}
	end, ok := plainText(b, i+1)
	if !ok || at(b, end+1) != ':' {
		return nil, 0, false
	}
	return b[i+1 : end], end + 2, true
}

// skip validates a value without decoding it.
func skip(b []byte, i int) (int, bool) {
	n := wire.ValueLength(b[i:])
	return i + n, n > 0 && !tooDeep(b[i:i+n]) && isValid(b[i:i+n])
}

// tooDeep reports whether a value may exceed the library's depth limit, at the deepest place where
// quick may call it. The library sees only the value, and not its surroundings.
func tooDeep(b []byte) bool {
	const most = 10_000 - mostDepth
	if len(b) < 2*most {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c|0x20 == '{':
			if depth++; depth > most {
				return true
			}
		case c|0x20 == '}':
			depth--
		}
	}
	return false
}

// inside decodes a list or a struct.
func (q *quick) inside(r *reader, p unsafe.Pointer, b []byte, i int) (end int, ok bool) {
	if q.depth++; q.depth > mostDepth {
		return 0, false
	}
	if r.does == lists {
		end, ok = q.list(r, p, b, i)
	} else {
		end, ok = q.object(r, p, b, i)
	}
	q.depth--
	return end, ok
}

// textMembers calls each for the members of an object whose values are strings. The values include
// their quotes. It returns the end of the object.
func textMembers(b []byte, i int, each func(name, value []byte) bool) (int, bool) {
	if at(b, i+1) == '}' {
		return i + 2, true
	}
	for {
		name, value, ok := memberAt(b, i+1)
		if !ok || at(b, value) != '"' {
			return 0, false
		}
		end, ok := plainText(b, value+1)
		if !ok || !each(name, b[value:end+1:end+1]) {
			return 0, false
		}
		switch i = end + 1; at(b, i) {
		case ',':
		case '}':
			return i + 1, true
		default:
			return 0, false
		}
	}
}

func boolean(p unsafe.Pointer, b []byte, i int) (int, bool) {
	if rest := b[i:]; len(rest) >= 4 && string(rest[:4]) == "true" {
		*(*bool)(p) = true
		return i + 4, true
	} else if len(rest) >= 5 && string(rest[:5]) == "false" {
		*(*bool)(p) = false
		return i + 5, true
	}
	return 0, false
}

// integer decodes a number without a point that fits. The caller checks the byte after it.
func (r *reader) integer(p unsafe.Pointer, b []byte, i int) (int, bool) {
	negative := at(b, i) == '-'
	if negative {
		i++
	}
	const longest = 18 // this number of digits always fits into 64 bits
	begin, n := i, int64(0)
	for ; isDigit(at(b, i)); i++ {
		n = 10*n + int64(b[i]-'0')
		if i-begin == longest {
			return 0, false
		}
	}
	if i == begin || b[begin] == '0' && i > begin+1 {
		return 0, false
	}
	if negative {
		n = -n
	}
	into := reflect.NewAt(r.typ, p).Elem()
	if into.CanInt() && !into.OverflowInt(n) {
		into.SetInt(n)
		return i, true
	}
	if into.CanUint() && !negative && !into.OverflowUint(uint64(n)) {
		into.SetUint(uint64(n))
		return i, true
	}
	return 0, false
}

// plainText returns the end of the string that contains i. It returns false if the string has
// escapes, control characters, or characters outside of ASCII.
func plainText(b []byte, i int) (int, bool) {
	const (
		ones   = 0x0101010101010101
		high   = 0x8080808080808080
		quotes = '"' * ones
		slants = '\\' * ones
		spaces = ' ' * ones
	)
	for ; i+8 <= len(b); i += 8 {
		word := binary.LittleEndian.Uint64(b[i:])
		quote, slant := word^quotes, word^slants
		// A matching byte borrows from the next byte: only bits above the first match can be wrong.
		if found := ((quote-ones)&^quote | (slant-ones)&^slant | (word-spaces)&^word | word) & high; found != 0 {
			i += bits.TrailingZeros64(found) / 8
			return i, b[i] == '"'
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' {
			return i, true
		} else if c < ' ' || c == '\\' || c >= 0x80 {
			return 0, false
		}
	}
	return 0, false
}
