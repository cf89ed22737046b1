package decode

import (
	"hash/maphash"

	"github.com/go-json-experiment/json/jsontext"
)

// interned gives equal strings the same memory, as far as it remembers them: names of images,
// nodes, phases and reasons repeat. It has one place for each hash, which keeps the last string. A
// map of all strings in use would cost more than the saved memory.
type interned struct {
	places  []internedText
	scratch []byte
}

type internedText struct {
	text  string
	boxed any // the text, once it was needed as an any
}

const (
	internedPlaces = 1024 // a power of two
	// Longer strings rarely repeat.
	internedLength = 64
	// The largest memory that stays for texts with escapes.
	mostScratch = 64 << 10
)

// place returns the place of a text, which has that text. Only short texts have a place.
func (s *interned) place(b []byte) *internedText {
	if s.places == nil {
		s.places = make([]internedText, internedPlaces)
	}
	place := &s.places[maphash.Bytes(seed, b)%internedPlaces]
	if place.text != string(b) {
		*place = internedText{text: string(b)}
	}
	return place
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
