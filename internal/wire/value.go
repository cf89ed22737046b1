package wire

import (
	"encoding/binary"
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
)

// value finds the end of a JSON value by counting brackets. It remembers where it stopped, so it
// scans a value that arrives in pieces only once.
type value struct {
	pos, depth int
	quoted     bool
}

// end returns the length of the value at the beginning of b, or 0 if the value is incomplete. The
// caller must then pass the same bytes again, with more.
func (v *value) end(b []byte) int {
	i, depth, quoted := v.pos, v.depth, v.quoted
	for i < len(b) {
		if quoted {
			i = plainEnd(b, i)
			if i >= len(b) {
				break
			}
			if b[i] == '\\' {
				if i+1 == len(b) {
					break // the escaped character has not arrived
				}
				i += 2
				continue
			}
			i++
			if quoted = false; depth == 0 {
				*v = value{}
				return i
			}
		}
		for i < len(b) {
			c := b[i]
			i++
			if c == '"' {
				quoted = true
				break
			}
			if c|0x20 == '{' {
				depth++
			} else if c|0x20 == '}' {
				if depth--; depth <= 0 {
					*v = value{}
					return i
				}
			}
		}
	}
	*v = value{pos: i, depth: depth, quoted: quoted}
	return 0
}

// plainEnd returns the index of the next quote or backslash from i on, or the length of b. It reads
// eight bytes at a time. Most strings are short, so a library call for each would cost more than
// the scan.
func plainEnd(b []byte, i int) int {
	const (
		ones   = 0x0101010101010101
		high   = 0x8080808080808080
		quotes = '"' * ones
		slants = '\\' * ones
	)
	for ; i+8 <= len(b); i += 8 {
		word := binary.LittleEndian.Uint64(b[i:])
		quote, slant := word^quotes, word^slants
		// A zero byte borrows from the next byte: only bits above the first match can be wrong.
		if found := ((quote-ones)&^quote | (slant-ones)&^slant) & high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// endOfString returns the end of the string that contains from, or 0 if b does not contain its end.
func endOfString(b []byte, from int) int {
	for i := from; ; i += 2 {
		if i = plainEnd(b, i); i >= len(b) {
			return 0
		}
		if b[i] == '"' {
			return i + 1
		}
	}
}

// skipSpace returns the length of the whitespace at the beginning of b.
func skipSpace(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return i
		}
	}
	return len(b)
}

// unquote returns the text of a JSON string, and false if b is not a string.
func unquote(b []byte) (string, bool) {
	if len(b) < 2 || b[0] != '"' {
		return "", false
	}
	inside := b[1 : len(b)-1]
	if isPlain(inside) {
		return string(inside), true
	}
	if !valid(b) {
		return "", false
	}
	text, _ := jsontext.AppendUnquote(nil, b) // AppendUnquote replaces invalid UTF-8, and reports it
	return string(text), true
}

// isPlain reports whether the inside of a JSON string equals its text.
func isPlain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// valid reports whether b is one JSON value by the rules of Kubernetes.
func valid(b []byte) bool {
	return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// ValueLength returns the length of the JSON value at the beginning of b, 0 if the value is
// incomplete, and -1 if there is none. It counts brackets and validates nothing. A number or a
// literal ends only at the byte after it.
func ValueLength(b []byte) int { return endOfValue(b, &value{}) }

// members calls each for the members of the JSON object b. It cuts values without validation, and
// validates everything between them.
func members(b []byte, each func(name string, v []byte) error) error {
	i := 1
	for first := true; ; first = false {
		i += skipSpace(b[i:])
		if i < len(b) && b[i] == '}' && first {
			break
		}
		name, n, err := memberName(b[i:], &value{})
		if err != nil {
			return err
		}
		i += n
		if i += skipSpace(b[i:]); n == 0 || i >= len(b) {
			return malformed("an object ends within a member")
		}
		if b[i] != ':' {
			return malformed("a colon is missing after %q", name)
		}
		i++
		i += skipSpace(b[i:])
		if n = endOfValue(b[i:], &value{}); n <= 0 {
			return malformed("member %q has no value", name)
		}
		if err := each(name, b[i:i+n]); err != nil {
			return err
		}
		i += n
		i += skipSpace(b[i:])
		if i >= len(b) {
			return malformed("an object ends within its members")
		}
		if b[i] == '}' {
			break
		}
		if b[i] != ',' {
			return malformed("a comma is missing after member %q", name)
		}
		i++
	}
	if i != len(b)-1 {
		return malformed("something follows an object's end")
	}
	return nil
}

// memberName reads the name of a member. It returns 0 if the name is incomplete.
func memberName(b []byte, v *value) (string, int, error) {
	if len(b) == 0 {
		return "", 0, nil
	}
	if b[0] != '"' {
		return "", 0, malformed("a member's name must be a string")
	}
	n := v.end(b)
	if n == 0 {
		return "", 0, nil
	}
	name, ok := unquote(b[:n])
	if !ok {
		return "", 0, malformed("a member's name is not a JSON string")
	}
	return name, n, nil
}

// endOfValue returns the length of the value at the beginning of b, 0 if the value is incomplete,
// and -1 if there is none. A number or a literal ends only at the byte after it.
func endOfValue(b []byte, v *value) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '{', '[', '"':
		return v.end(b)
	case ',', '}', ']', ':':
		return -1
	}
	for i := v.pos; i < len(b); i++ {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			*v = value{}
			return i
		}
	}
	v.pos = len(b)
	return 0
}
