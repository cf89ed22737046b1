package persist

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/store"
)

var (
	// ErrForeign means that another program made the file, or that its beginning is damaged. Open
	// does not change the file.
	ErrForeign = errors.New("file was not made by package persist: choose another path, or move it away")

	// ErrDamaged means that the content of a file is not what the store wrote. Open does not change
	// the file.
	ErrDamaged = errors.New("file is damaged: move it away, and everything is listed anew")

	// ErrNewer means that a later version of this package made the file. Open does not change the
	// file.
	ErrNewer = errors.New("file has a newer format: move it away, or use the newer program")

	// ErrMismatch means that a file has other content than the program expects: see
	// [MismatchError]. Open does not change the file.
	ErrMismatch = errors.New("file holds something else")

	// ErrUndecodable means that the file is intact, but this program cannot decode or store an
	// object in it. Open does not change the file.
	ErrUndecodable = errors.New("object in the file cannot be taken by this program: move the file away, and everything is listed anew")

	// ErrLocked means that a store in this process or another has the file open.
	ErrLocked = errors.New("file is in use by another store: a file serves one process at a time")

	// ErrSecret means that a store without AllowSecrets rejects Secrets.
	ErrSecret = errors.New("secrets are not written to disk unless Options.AllowSecrets says so")

	// ErrKindUnknown means that a store without a Resource rejects an object that may be a Secret:
	// its Go type has no fixed kind, and the object does not have one. It wraps ErrSecret.
	ErrKindUnknown = fmt.Errorf("%w, and this object does not say its kind: set Options.Resource", ErrSecret)

	// ErrKeyTooLong means that a key has more than [MaxKeyLength] bytes. The store rejects the
	// object.
	ErrKeyTooLong = errors.New("key is too long")

	// ErrNoCodec means that there is no default codec for objects of an interface type: it cannot
	// know which type to decode.
	ErrNoCodec = errors.New("no codec for an interface type: set Options.Codec")

	// ErrClosed means that the program used a store after its Close.
	ErrClosed = errors.New("store was closed")

	// ErrReplaced means that the file was deleted or replaced while the store has it open. The next
	// process would not find the changes that the store writes. The store works from memory, and
	// writes again once the file is back.
	ErrReplaced = errors.New("file was deleted or replaced while it is open: put it back, or close the store and open another")
)

// ScopesError says that a new scope, or a list of everything, overlaps scopes of the store. In most
// cases an earlier program wrote these scopes to the file. Call [Store.Drop] for the scopes that
// you no longer need, or fill these scopes. The error wraps the error of package store, and so
// [store.ErrOutOfScope].
type ScopesError struct {
	Path string
	// Scopes are all scopes of the store.
	Scopes []store.Scope
	Err    error
}

// Error names the scopes and the remedy.
func (e *ScopesError) Error() string {
	return fmt.Sprintf("%s: %v; the file has the scopes %v: Drop those that are not wanted any more, or fill these", e.Path, e.Err, e.Scopes)
}

// Unwrap returns Err.
func (e *ScopesError) Unwrap() error { return e.Err }

// FileError reports a problem with a file. Err is or wraps an error of this package, or of the
// operating system.
type FileError struct {
	Path string
	Err  error
}

// Error names the file and the cause.
func (e *FileError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// MismatchError says which property of a file differs from the property that the program expects.
// It wraps [ErrMismatch].
type MismatchError struct {
	// What names the property that differs: "type", "resource", "cluster" or "codec".
	What string
	// File is the value in the file, and Wanted the value of the program.
	File, Wanted string
}

// Error names both values.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: its %s is %q, not %q; choose another path for each", ErrMismatch, e.What, e.File, e.Wanted)
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// EncodeError names the objects that a transaction could not encode. Their current state is in the
// store, but not in the file. The transaction wrote all other objects.
type EncodeError struct {
	// Key is the first key in order, and Err the error of its codec.
	Key store.Key
	Err error

	// More is the number of the other objects.
	More int
}

// Error names the first object, and counts the others.
func (e *EncodeError) Error() string {
	and := ""
	if e.More > 0 {
		and = fmt.Sprintf(" and %d others", e.More)
	}
	return fmt.Sprintf("encode %q%s: %v; the next process lists them", e.Key, and, e.Err)
}

// Unwrap returns Err.
func (e *EncodeError) Unwrap() error { return e.Err }
