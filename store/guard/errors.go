package guard

import (
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/store"
)

// MutationError says that some code changed a cached object.
type MutationError struct {
	// Guard is the name that was passed to [Watch], such as the name of an informer.
	Guard string
	// Key is the key of the object.
	Key store.Key
	// Path leads to the first field, by name, that differs, such as spec.containers[0].image.
	Path string
	// Was and Is are the JSON of that field before and after; "absent" if it does not exist. Long
	// values are cut, and those of Secrets are hidden.
	Was, Is string
	// Suspects are the subscribers that used the object since the last comparison without a
	// difference, in no order. If there is only one, it changed the object, or code that read the
	// cache meanwhile did. If there is none, the change came from code that read the cache, or from
	// one of Earlier.
	Suspects []string
	// Earlier are the last other subscribers that used the object before, and may have kept it.
	Earlier []string
}

// Error returns all fields.
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

// EncodeError says that an object has no JSON form, so that the guard cannot find changes of it.
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
