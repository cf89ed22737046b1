package persist

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/store"
)

var (
	// ErrForeign means that a file was not made by this package, or that its
	// beginning is damaged. It is left as it is.
	ErrForeign = errors.New("file was not made by package persist: choose another path, or move it away")

	// ErrDamaged means that a file was made by this package, and is not what was
	// written. It is left as it is.
	ErrDamaged = errors.New("file is damaged: move it away, and everything is listed anew")

	// ErrNewer means that a file was made by a later version of this package. It is
	// left as it is.
	ErrNewer = errors.New("file has a newer format: move it away, or use the newer program")

	// ErrMismatch means that a file holds something else than what it was opened
	// for: see [MismatchError]. It is left as it is.
	ErrMismatch = errors.New("file holds something else")

	// ErrUndecodable means that a file is sound, and that an object in it cannot be
	// decoded or stored by this program. The file is left as it is.
	ErrUndecodable = errors.New("object in the file cannot be taken by this program: move the file away, and everything is listed anew")

	// ErrLocked means that a file is open already, in this process or another.
	ErrLocked = errors.New("file is in use by another store: a file serves one process at a time")

	// ErrSecret means that a store was given a Secret, and was not opened with
	// AllowSecrets.
	ErrSecret = errors.New("secrets are not written to disk unless Options.AllowSecrets says so")

	// ErrKindUnknown means that a store without a Resource was given an object that may
	// be a Secret: it has no Go type of its own and does not say its kind. It is an
	// ErrSecret.
	ErrKindUnknown = fmt.Errorf("%w, and this object does not say its kind: set Options.Resource", ErrSecret)

	// ErrKeyTooLong means that the parts of a key have more than [MaxKeyLength]
	// bytes. The object is rejected.
	ErrKeyTooLong = errors.New("key is too long")

	// ErrNoCodec means that there is no codec for objects of an interface type:
	// nothing says which type to make of what is read.
	ErrNoCodec = errors.New("no codec for an interface type: set Options.Codec")

	// ErrClosed means that a store is used after its Close.
	ErrClosed = errors.New("store was closed")

	// ErrReplaced means that the file was deleted or replaced while a store has it open: what
	// the store writes would not be found by the next process. The store works from memory, and
	// writes again once the file is back.
	ErrReplaced = errors.New("file was deleted or replaced while it is open: put it back, or close the store and open another")

	// ErrRunning means that Run was called while it runs already.
	ErrRunning = errors.New("store is running already")
)

// ScopesError says that what is to be filled overlaps scopes that the store has, in most cases
// because an earlier program had them and the file still does. [Store.Drop] those that are not
// wanted any more, or fill these scopes. It wraps what package store said, and so
// [store.ErrOutOfScope].
type ScopesError struct {
	Path string
	// Scopes are all that the store has.
	Scopes []store.Scope
	Err    error
}

// Error names the scopes, and what to do.
func (e *ScopesError) Error() string {
	return fmt.Sprintf("%s: %v; the file has the scopes %v: Drop those that are not wanted any more, or fill these", e.Path, e.Err, e.Scopes)
}

// Unwrap returns Err.
func (e *ScopesError) Unwrap() error { return e.Err }

// FileError says what is wrong with a file. Err is or wraps one of the errors of
// this package, or one of the operating system.
type FileError struct {
	Path string
	Err  error
}

// Error names the file and the cause.
func (e *FileError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// MismatchError says what a file holds instead of what it was opened for. It wraps
// [ErrMismatch].
type MismatchError struct {
	// What is the property that differs: "type", "resource", "cluster" or "codec".
	What string
	// File is what the file says, and Wanted what the program does.
	File, Wanted string
}

// Error names both sides.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: its %s is %q, not %q; choose another path for each", ErrMismatch, e.What, e.File, e.Wanted)
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }
