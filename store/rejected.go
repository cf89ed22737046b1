package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// ErrPanic means that a function which was given to a store panicked: a KeyFunc,
// an index function, or that of a store of package decorate. The object is rejected.
// The error that wraps it carries the value and the stack.
var ErrPanic = errors.New("panic")

// Rejection is one object that a [Store] could not take.
type Rejection struct {
	// Key is the object's key; zero where the key is what could not be had.
	Key Key
	// Version is what is known of the rejected state.
	Version Version
	// Err says why.
	Err error
}

// Error names the key, the resource version and the cause.
func (r Rejection) Error() string {
	name := "object without a key"
	if r.Key != (Key{}) {
		name = fmt.Sprintf("%.253q", r.Key) // a name that is longer is no name
	}
	if r.Version.ResourceVersion != "" {
		name += fmt.Sprintf(" at resource version %.64q", r.Version.ResourceVersion)
	}
	return fmt.Sprintf("%s: %v", name, r.Err)
}

// RejectedError says which objects a [Store] could not take. Everything else
// that was given with them has been stored; what was held under their keys is
// still held.
type RejectedError struct {
	// Rejections holds at least one element.
	Rejections []Rejection
}

// maxListed bounds the length of a message when a whole list is bad.
const maxListed = 5

// Error lists the first few rejections and the number of the others.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("store rejected %d object(s): %s", len(e.Rejections), describe(e.Rejections))
}

// describe names the first few of some rejections.
func describe(rejections []Rejection) string {
	var b strings.Builder
	for i, r := range rejections {
		if i == maxListed {
			fmt.Fprintf(&b, "; and %d more", len(rejections)-maxListed)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(r.Error())
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *RejectedError) Unwrap() []error {
	errs := make([]error, len(e.Rejections))
	for i, r := range e.Rejections {
		errs[i] = r.Err
	}
	return errs
}

// RefusedError means that a [Store] which takes no batches was not given what a
// list, or the rest of a batch, has: some objects of it cannot be had, and that
// Store has no way to keep what it holds of them. Of a list nothing was stored.
//
// It is no [*RejectedError], which says that everything else was stored, and does
// not lead to the causes of its rejections, which may be such errors.
type RefusedError struct {
	// Rejections are the objects that cannot be had: at least one.
	Rejections []Rejection
}

// Error says what to do, and lists the first few objects.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("nothing was stored, because %d object(s) cannot be had and the store cannot keep what it holds of them; give it the methods of store.BatchStore: %s", len(e.Rejections), describe(e.Rejections))
}

// rejectedError returns the error for some rejections, nil for none.
func rejectedError(rejections []Rejection) error {
	if len(rejections) == 0 {
		return nil
	}
	return &RejectedError{Rejections: rejections}
}

// recovered turns the value of a recovered panic into an error. The stack is
// part of it: the function that panicked is the user's, and they have to find
// it.
func recovered(value any) error {
	return fmt.Errorf("%w: %v\n%s", ErrPanic, value, debug.Stack())
}
