package source

import (
	"strconv"
)

// Revision is a resource version as a number.
type Revision uint64

// RevisionOf converts a version to a number. It returns false for a version in another format than
// API servers use: such versions have no order.
func RevisionOf[V string | []byte](version V) (Revision, bool) {
	const digits = 19 // that a revision can hold
	if len(version) == 0 || len(version) > digits || version[0] == '0' {
		return 0, false
	}
	n := Revision(0)
	for i := range len(version) {
		digit := version[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = 10*n + Revision(digit)
	}
	return n, true
}

// String returns a revision in the server's format.
func (r Revision) String() string { return strconv.FormatUint(uint64(r), 10) }
