package decode

import "hash/maphash"

// interned gives equal strings the same memory, as far as it remembers them: names of images,
// nodes, phases and reasons repeat. It has one place for each hash, which keeps the last string. A
// map of all strings in use would cost more than the saved memory.
type interned []string

const (
	internedPlaces = 1024 // a power of two
	// Longer strings rarely repeat.
	internedLength = 64
)

func (s *interned) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > internedLength {
		return string(b)
	}
	if *s == nil {
		*s = make(interned, internedPlaces)
	}
	place := &(*s)[maphash.Bytes(seed, b)%internedPlaces]
	if *place != string(b) {
		*place = string(b)
	}
	return *place
}
