package decode

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// at returns a byte, or 0 after the end.
func at(b []byte, i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0
}

// memberAt returns the plain name of a member, and the index of its value.
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

// pass validates a value without whitespace, whose objects and arrays may be so deep.
func pass(b []byte, i, most int) (end int, ok bool) {
	c := at(b, i)
	switch c {
	case '"':
		end, _, ok = textEnd(b, i+1)
		return end + 1, ok
	case 'n', 't', 'f':
		return literal(b, i)
	case '{', '[':
	default:
		end, _, ok = numberEnd(b, i)
		return end, ok
	}
	if at(b, i+1) == c+2 {
		return i + 2, true
	}
	if most == 0 {
		return 0, false
	}
	for {
		if i++; c == '{' {
			if at(b, i) != '"' {
				return 0, false
			}
			if i, _, ok = textEnd(b, i+1); !ok || at(b, i+1) != ':' {
				return 0, false
			}
			i += 2
		}
		if i, ok = pass(b, i, most-1); !ok {
			return 0, false
		}
		switch at(b, i) {
		case ',':
		case c + 2: // the closing bracket
			return i + 1, true
		default:
			return 0, false
		}
	}
}

// literal returns the end of null, true or false.
func literal(b []byte, i int) (int, bool) {
	word := "null"
	switch at(b, i) {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	end := i + len(word)
	return end, end <= len(b) && string(b[i:end]) == word
}

// numberEnd returns the end of a number, and whether it has neither a point nor an exponent.
func numberEnd(b []byte, i int) (end int, integer, ok bool) {
	if at(b, i) == '-' {
		i++
	}
	if begin := i; at(b, i) == '0' {
		i++
	} else if i = digits(b, i); i == begin {
		return 0, false, false
	}
	integer = true
	if at(b, i) == '.' {
		begin := i + 1
		if i, integer = digits(b, begin), false; i == begin {
			return 0, false, false
		}
	}
	if at(b, i)|0x20 == 'e' {
		if i, integer = i+1, false; at(b, i) == '+' || at(b, i) == '-' {
			i++
		}
		begin := i
		if i = digits(b, begin); i == begin {
			return 0, false, false
		}
	}
	return i, integer, true
}

func digits(b []byte, i int) int {
	for isDigit(at(b, i)) {
		i++
	}
	return i
}

// integerAt decodes a number without a point or an exponent.
func integerAt(b []byte, i int) (n int64, end int, ok bool) {
	end, integer, ok := numberEnd(b, i)
	if !ok || !integer {
		return 0, 0, false
	}
	const sure = 18 // this number of digits always fits into 64 bits
	if end-i > sure {
		n, err := strconv.ParseInt(string(b[i:end]), 10, 64)
		return n, end, err == nil
	}
	negative := b[i] == '-'
	if negative {
		i++
	}
	for _, c := range b[i:end] {
		n = 10*n + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, end, true
}

// integer decodes a number that fits.
func (r *reader) integer(p unsafe.Pointer, b []byte, i int) (int, bool) {
	n, end, ok := integerAt(b, i)
	if !ok {
		return 0, false
	}
	into := reflect.NewAt(r.typ, p).Elem()
	if into.CanInt() && !into.OverflowInt(n) {
		into.SetInt(n)
		return end, true
	}
	if into.CanUint() && b[i] != '-' && !into.OverflowUint(uint64(n)) {
		into.SetUint(uint64(n))
		return end, true
	}
	return 0, false
}

// float decodes a number that fits.
func (r *reader) float(p unsafe.Pointer, b []byte, i int) (int, bool) {
	end, _, ok := numberEnd(b, i)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b[i:end]), r.typ.Bits())
	reflect.NewAt(r.typ, p).Elem().SetFloat(f)
	return end, err == nil
}

// plainText returns the end of the string that contains i. It returns false, and the index of the
// first unusual byte, if the string has escapes, control characters, or characters outside of ASCII.
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
			return i, false
		}
	}
	return i, false
}

// textEnd returns the end of the string that contains i, and whether the string is plain. It
// validates escapes and accepts any UTF-8, as the library does with its option.
func textEnd(b []byte, i int) (end int, plain, ok bool) {
	for plain = true; ; plain = false {
		if i, ok = plainText(b, i); ok {
			return i, plain, true
		}
		switch c := at(b, i); {
		case c >= 0x80:
			i++
		case c != '\\':
			return 0, false, false
		case at(b, i+1) == 'u':
			for _, c := range []byte{at(b, i+2), at(b, i+3), at(b, i+4), at(b, i+5)} {
				if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
					return 0, false, false
				}
			}
			i += 6
		default:
			switch at(b, i+1) {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			default:
				return 0, false, false
			}
		}
	}
}

// interned gives equal strings the same memory, as far as it remembers them: names of images,
// nodes, phases and reasons repeat. It has one place for each hash, which keeps the last string. A
// map of all strings in use would cost more than the saved memory.
type interned struct {
	// places begin few, because a program may have hundreds of kinds with few objects, and become four
	// times as many when as many strings have lost their places.
	places  []internedText
	lost    int
	scratch []byte
}

type internedText struct {
	text  string
	boxed any // the text, once it was needed as an any
}

const (
	fewestPlaces = 16 // powers of two, whose ratio is a power of four
	mostPlaces   = 1024
	// Longer strings rarely repeat.
	internedLength = 64
	// The largest memory that stays for texts with escapes.
	mostScratch = 64 << 10
)

// place returns the place of a text, which has that text. Only short texts have a place.
func (s *interned) place(b []byte) *internedText {
	if s.places == nil {
		s.places = make([]internedText, fewestPlaces)
	}
	hash := maphash.Bytes(seed, b)
	place := &s.places[hash%uint64(len(s.places))]
	if place.text == string(b) {
		return place
	}
	if place.text != "" {
		if s.lost++; s.lost > len(s.places) && len(s.places) < mostPlaces {
			s.grow()
			place = &s.places[hash%uint64(len(s.places))]
		}
	}
	*place = internedText{text: string(b)}
	return place
}

// grow makes more places, and puts the strings into theirs.
func (s *interned) grow() {
	old := s.places
	s.places, s.lost = make([]internedText, 4*len(old)), 0
	for _, one := range old {
		s.places[maphash.String(seed, one.text)%uint64(len(s.places))] = one
	}
}

func (s *interned) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > internedLength {
		return string(b)
	}
	return s.place(b).text
}

// box returns a text as an any.
func (s *interned) box(b []byte) any {
	if len(b) > internedLength {
		return string(b)
	}
	place := s.place(b)
	if place.boxed == nil {
		place.boxed = place.text
	}
	return place.boxed
}

// textAt returns the text of the JSON string at i, until the next call, and the end of the string.
func (s *interned) textAt(b []byte, i int) (text []byte, end int, ok bool) {
	end, plain, ok := textEnd(b, i+1)
	switch {
	case !ok:
		return nil, 0, false
	case plain:
		return b[i+1 : end], end + 1, true
	}
	s.scratch, _ = jsontext.AppendUnquote(s.scratch[:0], b[i:end+1]) // AppendUnquote replaces invalid UTF-8, and reports it
	text = s.scratch
	if cap(text) > mostScratch {
		s.scratch = nil
	}
	return text, end + 1, true
}
