package decode

import "hash/maphash"

// interned gives equal strings the same memory, as far as it remembers: names of images, nodes
// and phases, reasons and the like come again and again. It has one place for each hash, where the
// last one stays: a map that knows which string is in use would cost more than the memory is worth.
type interned []string

const (
	internedPlaces = 1024 // a power of two
	// Longer strings come once, as a rule.
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
