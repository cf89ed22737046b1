package await

import (
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/store"
)

// Error says why a wait failed.
type Error struct {
	// Wanted is the resource version that the caller waited for; empty if the object has none.
	Wanted string
	// Reached is the resource version of the cache, or of the partition, when the wait ended.
	Reached string
	// Key is the key of the object that the caller waited for; zero if there was no object.
	Key store.Key
	// Rejected lists, in order, the first 16 keys that hold back the resource version. The cache
	// rejected an object under each key, and has not stored or deleted it since. The zero Key
	// stands for objects without a key.
	Rejected []store.Key
	// Err is [store.ErrOutOfScope] or [store.ErrBadKey], or the cause of the context. Else its text
	// says that a list lowered the version, or that the version is empty or no number.
	Err error
}

const (
	maxRejected = 16 // bounds Error.Rejected
	maxListed   = 5  // bounds the length of a message
)

// Error names the wanted and the reached version, the first rejected keys, and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "waiting for resource version %.64q", e.Wanted)
	if e.Key != (store.Key{}) {
		fmt.Fprintf(&b, " of %.253q", e.Key)
	}
	fmt.Fprintf(&b, ", reached %.64q", e.Reached)
	separator := " before the rejected "
	for _, key := range e.Rejected[:min(len(e.Rejected), maxListed)] {
		name := "object without a key"
		if key != (store.Key{}) {
			name = fmt.Sprintf("%.253q", key) // no longer name is valid
		}
		b.WriteString(separator + name)
		separator = ", "
	}
	if len(e.Rejected) > maxListed {
		b.WriteString(" and others")
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
