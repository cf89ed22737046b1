package compact

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/store"
)

// ErrNoStruct means that T is no pointer to a struct.
var ErrNoStruct = errors.New("only pointers to structs can be packed")

// DecodeError says that a packed object cannot be decoded. [Packer.Pack] decodes each object in
// JSON once, and rejects it with this error if that fails. It relies on generated methods.
type DecodeError struct {
	// Key is the key of the object.
	Key store.Key
	Err error
}

// Error names the object and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode packed object %q: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }
