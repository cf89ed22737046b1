package panicked

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Err is store.ErrPanic.
var Err = errors.New("panic")

// Error turns the value of a recovered panic into an error. It adds the stack, so that users find
// their function that panicked.
func Error(value any) error {
	return fmt.Errorf("%w: %.1000s\n%s", Err, fmt.Sprint(value), debug.Stack())
}

// MaxStacks is how many errors of one list, or of one batch, keep their stack. A stack is some kilobytes
// of text, and errors last until the next list succeeds. If a function panics on each of 100,000
// objects, the stacks would take a gigabyte, and nearly all of them are the same.
const MaxStacks = 100

// errNoStack takes the place of the errors after the first MaxStacks.
var errNoStack = fmt.Errorf("%w: %d earlier objects of the same list or batch have the values and the stacks", Err, MaxStacks)

// Stacks bounds the stacks that the errors of one list or batch keep. The zero value is ready to use.
type Stacks struct{ kept int }

// Bound returns an error as it is, or, if enough errors have a stack, one that has none. Errors other
// than an [Err] stay as they are, and so does nil.
func (s *Stacks) Bound(err error) error {
	switch {
	case err == errNoStack || !errors.Is(err, Err):
		return err
	case s.kept == MaxStacks:
		return errNoStack
	}
	s.kept++
	return err
}
