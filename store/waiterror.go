package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrVersionLowered means that the version that was waited for may never come: the server went back to
// an older state, as after a restore from a backup. Read the object from the server again.
var ErrVersionLowered = errors.New("a list lowered the resource version: the server went back to an older state")

var errNoVersion = errors.New("object has no resource version: pass it as the server returned it")

// WaitError says why waiting for a resource version ended before it was reached.
type WaitError struct {
	// Wanted is the resource version that was waited for; empty if the object has
	// none.
	Wanted string
	// Reached is how far the cache was when waiting ended.
	Reached string
	// Key is the object that was waited for, if it was one that has a key.
	Key Key
	// Lacking names objects that the cache was given and had to reject, in the
	// order of their keys; the zero Key stands for those without one. As long as
	// there are any, the resource version stays before them, and waiting does not
	// end. There may be more if it has 16 elements.
	Lacking []Key
	// Err is [ErrVersionLowered], [ErrOutOfScope] or [ErrBadKey], the cause of the context, or the
	// error of a version that is empty or no number.
	Err error
}

// Error names what was wanted, how far it got, the first few objects that are
// lacking, and the cause.
func (e *WaitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "waiting for resource version %q", e.Wanted)
	if e.Key != (Key{}) {
		fmt.Fprintf(&b, " of %q", e.Key)
	}
	fmt.Fprintf(&b, ", reached %q", e.Reached)
	for i, key := range e.Lacking {
		switch {
		case i == 0:
			b.WriteString(" for lack of ")
		case i == maxListed:
			b.WriteString(" and others")
		default:
			b.WriteString(", ")
		}
		if i == maxListed {
			break
		}
		if key == (Key{}) {
			b.WriteString("an object without a key")
		} else {
			fmt.Fprintf(&b, "%q", key)
		}
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }

// maxLacking bounds WaitError.Lacking.
const maxLacking = 16

// sortKeys is not inlined where somebody has a cache, since it would be compiled there once more.
//
//go:noinline
func sortKeys(keys []Key) { slices.SortFunc(keys, Key.Compare) }

func (p *Partition[T]) waitError(key Key, wanted string, err error) error {
	p.of.mu.RLock()
	reached, missing := p.resourceVersion, p.lacking.all()
	p.of.mu.RUnlock()
	sortKeys(missing)
	missing = slices.Clip(missing[:min(len(missing), maxLacking)])
	if len(missing) == 0 {
		missing = nil
	}
	return &WaitError{Wanted: wanted, Reached: reached, Key: key, Lacking: missing, Err: err}
}
