package wire

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// The tags of byte strings that are encoded in JSON (RFC 8949, 3.4.5.2).
const (
	tagBase64URL = 21
	tagBase64    = 22
	tagBase16    = 23
)

// AppendJSON appends a CBOR data item as the JSON that API servers would have sent. They write
// strings as byte strings, and []byte with a tag for base64. AppendJSON ignores tags that they do
// not send.
func AppendJSON(dst, item []byte) ([]byte, error) {
	var v cborValue
	switch n, err := v.end(item); {
	case err != nil:
		return dst, err
	case n != len(item) || n == 0:
		return dst, malformed("something else than one CBOR item")
	}
	t := transcoder{b: item, out: dst}
	err := t.item()
	return t.out, err
}

// transcoder reads complete CBOR.
type transcoder struct {
	b, out []byte
}

// head returns the head of the next item.
func (t *transcoder) head() cborHead {
	h, _ := readCBORHead(t.b)
	return h
}

func (t *transcoder) item() error {
	var tag uint64 // the innermost tag takes effect
	h := t.head()
	for ; h.major == cborTag; h = t.head() {
		tag, t.b = h.arg, t.b[h.size:]
	}
	first := t.b[0]
	switch h.major {
	case cborBytes, cborText:
		text, err := t.text(h)
		if err != nil {
			return err
		}
		if h.major == cborText {
			tag = 0
		}
		t.string(text, tag)
		return nil
	case cborArray:
		return t.array(h)
	case cborMap:
		return t.object(h)
	case cborSimple:
		return t.simple(first, h)
	}
	t.b = t.b[h.size:]
	if h.major == 0 {
		t.out = strconv.AppendUint(t.out, h.arg, 10)
		return nil
	}
	if h.arg > math.MaxInt64 {
		return malformed("a CBOR integer is too small")
	}
	t.out = strconv.AppendInt(t.out, -1-int64(h.arg), 10)
	return nil
}

// text returns the content of a string, which may consist of several pieces.
func (t *transcoder) text(h cborHead) ([]byte, error) {
	t.b = t.b[h.size:]
	if h.arg != endless {
		text := t.b[:h.arg]
		t.b = t.b[h.arg:]
		return text, nil
	}
	var text []byte
	for t.b[0] != cborBreak {
		piece := t.head()
		if piece.major != h.major || piece.arg == endless {
			return nil, malformed("a CBOR string has something else in it")
		}
		more, err := t.text(piece)
		if err != nil {
			return nil, err
		}
		text = append(text, more...)
	}
	t.b = t.b[1:]
	return text, nil
}

func (t *transcoder) string(text []byte, tag uint64) {
	switch tag {
	case tagBase64URL:
		t.out = append(base64.RawURLEncoding.AppendEncode(append(t.out, '"'), text), '"')
		return
	case tagBase64:
		t.out = append(base64.StdEncoding.AppendEncode(append(t.out, '"'), text), '"')
		return
	case tagBase16:
		t.out = append(hex.AppendEncode(append(t.out, '"'), text), '"')
		return
	}
	t.out, _ = jsontext.AppendQuote(t.out, text) // AppendQuote replaces invalid UTF-8, and reports it
}

// more reports whether there is another element. Without one, it consumes the break.
func (t *transcoder) more(left *uint64) bool {
	switch {
	case *left == 0:
		return false
	case *left != endless:
		*left--
	case t.b[0] == cborBreak:
		t.b = t.b[1:]
		return false
	}
	return true
}

func (t *transcoder) array(h cborHead) error {
	t.b, t.out = t.b[h.size:], append(t.out, '[')
	for comma := false; t.more(&h.arg); comma = true {
		if comma {
			t.out = append(t.out, ',')
		}
		if err := t.item(); err != nil {
			return err
		}
	}
	t.out = append(t.out, ']')
	return nil
}

func (t *transcoder) object(h cborHead) error {
	t.b, t.out = t.b[h.size:], append(t.out, '{')
	for comma := false; t.more(&h.arg); comma = true {
		if comma {
			t.out = append(t.out, ',')
		}
		name := t.head()
		if name.major != cborBytes && name.major != cborText {
			return malformed("a member's name must be a string")
		}
		text, err := t.text(name)
		if err != nil {
			return err
		}
		t.string(text, 0)
		if len(t.b) == 0 || t.b[0] == cborBreak {
			return malformed("a CBOR map ends within a member")
		}
		t.out = append(t.out, ':')
		if err := t.item(); err != nil {
			return err
		}
	}
	t.out = append(t.out, '}')
	return nil
}

func (t *transcoder) simple(first byte, h cborHead) error {
	bits := t.b[1:h.size]
	t.b = t.b[h.size:]
	switch first {
	case 0xf4:
		t.out = append(t.out, "false"...)
	case 0xf5:
		t.out = append(t.out, "true"...)
	case cborNull, 0xf7: // undefined
		t.out = append(t.out, "null"...)
	case 0xf9:
		return t.float(half(binary.BigEndian.Uint16(bits)))
	case 0xfa:
		return t.float(float64(math.Float32frombits(binary.BigEndian.Uint32(bits))))
	case 0xfb:
		return t.float(math.Float64frombits(binary.BigEndian.Uint64(bits)))
	default:
		return malformed("a CBOR item begins with %#x", first)
	}
	return nil
}

// float appends a number in a form that decoders do not read as an integer.
func (t *transcoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return malformed("a CBOR float is no number")
	}
	begin := len(t.out)
	t.out = strconv.AppendFloat(t.out, f, 'g', -1, 64)
	for _, c := range t.out[begin:] {
		if c == '.' || c == 'e' {
			return nil
		}
	}
	t.out = append(t.out, ".0"...)
	return nil
}

// half returns the value of a 16-bit float.
func half(bits uint16) float64 {
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	f := math.Inf(1)
	switch {
	case exponent == 0:
		f = math.Ldexp(fraction, -24)
	case exponent < 31:
		f = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits>>15 != 0 {
		return -f
	}
	return f
}
