package guard

import (
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/store"
)

// MutationError says that a cached object was changed.
type MutationError struct {
	// Guard is the name that [Watch] was given: that of an informer.
	Guard string
	// Key is the object's.
	Key store.Key
	// Path leads to the first field that differs, in the order of names, such as
	// spec.containers[0].image.
	Path string
	// Was and Is are the JSON of that field before and after; "absent" if there is none.
	// Long ones are cut.
	Was, Is string
	// Suspects are the subscribers that had the object in hand since it was last known
	// good, in no order. If there is one alone, it was that one, or somebody who read
	// the cache meanwhile. If there is none, it was somebody who read the cache, or one of
	// Earlier.
	Suspects []string
	// Earlier are others that were given the object before, and may have kept it.
	Earlier []string
}

// Error says everything.
func (e *MutationError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: cached object %q was changed: %s was %s, is %s; ", e.Guard, e.Key, e.Path, e.Was, e.Is)
	switch len(e.Suspects) {
	case 0:
		b.WriteString("no subscriber had it in hand, so somebody who read it from the cache must copy it first")
	case 1:
		fmt.Fprintf(&b, "subscriber %s had it in hand, and must copy it first", e.Suspects[0])
	default:
		fmt.Fprintf(&b, "one of the subscribers %s had it in hand, and must copy it first", strings.Join(e.Suspects, ", "))
	}
	if len(e.Earlier) > 0 {
		fmt.Fprintf(&b, "; given before to %s", strings.Join(e.Earlier, ", "))
	}
	return b.String()
}

// EncodeError says that an object has no JSON form, so that nobody finds out when it
// changes.
type EncodeError struct {
	Guard string
	Key   store.Key
	Err   error
}

// Error names the object and the cause.
func (e *EncodeError) Error() string {
	return fmt.Sprintf("%s: object %q cannot be guarded: %v", e.Guard, e.Key, e.Err)
}

// Unwrap returns Err.
func (e *EncodeError) Unwrap() error { return e.Err }
