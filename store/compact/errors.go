package compact

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/store"
)

// ErrNoStruct means that T is something else than a pointer to a struct.
var ErrNoStruct = errors.New("only pointers to structs can be packed")

// DecodeError says that an object cannot be had from what was packed. What is not
// generated is decoded once when it is packed, so that this is found out then and the
// object is rejected; see [Packer.Pack].
type DecodeError struct {
	// Key is the object's.
	Key store.Key
	Err error
}

// Error names the object and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode packed object %q: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }
