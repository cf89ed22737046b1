package decode

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// readAny decodes a value into an any. The library would turn every number into a float64. A hook
// on any that leaves other values to the library is slow.
func readAny(dec *jsontext.Decoder, into *any) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	u := untyped{b: raw}
	*into = u.value()
	return u.err
}

func readMap(dec *jsontext.Decoder, into *map[string]any) error {
	if kind := dec.PeekKind(); kind != '{' && kind != 'n' {
		return fmt.Errorf("an object is expected, not %s", kind)
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if raw[0] == 'n' {
		*into = nil
		return nil
	}
	if *into == nil {
		*into = map[string]any{}
	}
	u := untyped{b: raw}
	u.object(*into)
	return u.err
}

func readSlice(dec *jsontext.Decoder, into *[]any) error {
	if kind := dec.PeekKind(); kind != '[' && kind != 'n' {
		return fmt.Errorf("an array is expected, not %s", kind)
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if raw[0] == 'n' {
		*into = nil
		return nil
	}
	u := untyped{b: raw}
	*into = u.array()
	return u.err
}

// untyped reads valid JSON.
type untyped struct {
	b   []byte
	i   int
	err error // the first error; reading goes on
}

// next skips separators and whitespace, and returns the byte after them.
func (u *untyped) next() byte {
	for {
		switch c := u.b[u.i]; c {
		case ' ', '\n', '\r', '\t', ',', ':':
			u.i++
		default:
			return c
		}
	}
}

func (u *untyped) value() any {
	switch c := u.next(); c {
	case '{':
		m := map[string]any{}
		u.object(m)
		return m
	case '[':
		return u.array()
	case '"':
		return u.string()
	case 'n':
		u.i += len("null")
		return nil
	case 't':
		u.i += len("true")
		return true
	case 'f':
		u.i += len("false")
		return false
	}
	return u.number()
}

func (u *untyped) object(into map[string]any) {
	u.next()
	for u.i++; u.next() != '}'; {
		name := u.string()
		into[name] = u.value()
	}
	u.i++
}

func (u *untyped) array() []any {
	a := []any{}
	u.next()
	for u.i++; u.next() != ']'; {
		a = append(a, u.value())
	}
	u.i++
	return a
}

func (u *untyped) string() string {
	u.next()
	u.i++
	begin, plain := u.i, true
	for ; u.b[u.i] != '"'; u.i++ {
		if c := u.b[u.i]; c == '\\' {
			plain = false
			u.i++
		} else if c >= 0x80 {
			plain = false
		}
	}
	u.i++
	if plain {
		return string(u.b[begin : u.i-1])
	}
	text, _ := jsontext.AppendUnquote(nil, u.b[begin-1:u.i]) // AppendUnquote replaces invalid UTF-8, and reports it
	return string(text)
}

func (u *untyped) number() any {
	begin := u.i
	for u.i < len(u.b) && bytes.IndexByte([]byte("+-.0123456789Ee"), u.b[u.i]) >= 0 {
		u.i++
	}
	text := string(u.b[begin:u.i])
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && u.err == nil {
		u.err = err
	}
	return f
}
