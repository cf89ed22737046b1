package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// value finds the end of a JSON object, array or string. It counts brackets and looks at
// nothing else. It remembers where it stopped, so that a value that arrives in pieces is
// looked at once.
type value struct {
	pos, depth int
	quoted     bool
}

// end returns the length of the value that b begins with, or 0 if b does not have all
// of it; then b must be the same again, with more.
func (v *value) end(b []byte) int {
	i, depth := v.pos, v.depth
	if v.quoted {
		if i = endOfString(b, i); i == 0 {
			v.pos = len(b)
			return 0
		}
		v.quoted = false
		if depth == 0 {
			*v = value{}
			return i
		}
	}
	for i < len(b) {
		c := b[i]
		i++
		switch c {
		case '"':
			begin := i
			if i = endOfString(b, i); i == 0 {
				*v = value{pos: max(begin, len(b)), depth: depth, quoted: true}
				return 0
			}
			if depth == 0 {
				*v = value{}
				return i
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				*v = value{}
				return i
			}
		}
	}
	*v = value{pos: i, depth: depth}
	return 0
}

// endOfString returns where the string that from is inside of ends, or 0 if b does not have
// its end.
func endOfString(b []byte, from int) int {
	for i := from; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return 0
		}
		i += n
		escapes := i
		for escapes > 0 && b[escapes-1] == '\\' {
			escapes--
		}
		i++
		if (i-1-escapes)%2 == 0 {
			return i
		}
	}
}

// skipSpace returns where the whitespace at the beginning of b ends.
func skipSpace(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return i
		}
	}
	return len(b)
}

// unquote returns the text of a JSON string, and false if it is none.
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
	text, _ := jsontext.AppendUnquote(nil, b) // invalid UTF-8 is replaced, and reported
	return string(text), true
}

// isPlain reports whether the inside of a JSON string is its text.
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
