package eventqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

var (
	// ErrClosed means that the collection is closed: callers can no longer add events to it or take
	// queues from it.
	ErrClosed = errors.New("event-queue collection is closed")

	// ErrReadOnly means that a caller wrote to a collection that follows a cache. Write to the
	// cache instead.
	ErrReadOnly = errors.New("event-queue collection follows a cache and cannot be written to")

	// ErrAbandoned is the failure of a key whose loop body or handler ended by a panic or by
	// runtime.Goexit.
	ErrAbandoned = errors.New("handler ended by a panic or by runtime.Goexit")
)

// PanicError is the failure of a key whose handler or predicate panicked, or whose handler ended
// its goroutine by [runtime.Goexit].
type PanicError struct {
	Key store.Key
	// Value is the value that the handler passed to panic, or [ErrAbandoned]. It is an any because
	// panic takes one.
	Value any
	// Stack is the handler's stack, as runtime/debug.Stack formats it.
	Stack []byte
}

// Error names the key and the value, without the stack.
func (e *PanicError) Error() string {
	if e.Value == ErrAbandoned {
		return fmt.Sprintf("handler ended by runtime.Goexit on %q", e.Key)
	}
	return fmt.Sprintf("handler panicked on %q: %v", e.Key, e.Value)
}

// Unwrap returns Value if it is an error, as after panic(err).
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// HandlerError is a failure of a handler. [Collection.Process], controllers and informers report
// it. The failed events come again unless Err is [Permanent].
type HandlerError struct {
	// Key is the object that the handler failed on.
	Key store.Key
	// Attempt is one more than the number of failures since the object was last
	// acknowledged.
	Attempt int
	// ResourceVersion is the object's resource version. From a queue, it comes from the first event
	// that was not acknowledged. From a reconciler, it comes from the object in the cache. It is
	// empty if there is none.
	ResourceVersion string
	// RetryIn is the back-off before the next attempt, or 0 if Err is [Permanent]. A new event of the
	// object may end it: see queue-E11.
	RetryIn time.Duration
	// Err is the handler's error, or a [*PanicError].
	Err error
}

// Error names the object, the attempt and the cause.
func (e *HandlerError) Error() string {
	if IsPermanent(e.Err) {
		return fmt.Sprintf("handling %q failed for good (attempt %d): %v", e.Key, e.Attempt, e.Err)
	}
	return fmt.Sprintf("handling %q failed (attempt %d): %v", e.Key, e.Attempt, e.Err)
}

// Unwrap returns Err.
func (e *HandlerError) Unwrap() error { return e.Err }

// permanentError marks an error as permanent.
type permanentError struct{ err error }

// Permanent returns an error that wraps err and has its text. It marks a failure that a retry
// cannot repair: the collection reports the failed events and does not retry them. Permanent
// returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether an error is, or wraps, an error of [Permanent]. If err joins several
// errors, each of them must be permanent.
func IsPermanent(err error) bool {
	switch e := err.(type) {
	case *permanentError:
		return true
	case interface{ Unwrap() error }:
		return IsPermanent(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !IsPermanent(one) })
	}
	return false
}

func (e *permanentError) Error() string { return e.err.Error() }

func (e *permanentError) Unwrap() error { return e.err }

// DrainError lists the keys that remained when [Collection.Drain] ended.
type DrainError struct {
	// Pending holds at least one element, in the order of keys.
	Pending []Pending
	// Cause is the cause of the context that ended draining. It is nil if only failed keys
	// remained.
	Cause error
}

// Error lists the first few keys and the number of the others.
func (e *DrainError) Error() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "%d key(s) left undone", len(e.Pending))
	if e.Cause != nil {
		fmt.Fprintf(&b, " (%v)", e.Cause)
	}
	for i, p := range e.Pending {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Pending)-most)
			break
		}
		fmt.Fprintf(&b, "; %q: %d event(s)", p.Key, p.Events)
		if p.InFlight {
			b.WriteString(", handler still running")
		}
		if p.Err != nil {
			fmt.Fprintf(&b, ", failed: %v", p.Err)
		}
	}
	return b.String()
}

// Unwrap returns Cause and the failures of the keys.
func (e *DrainError) Unwrap() []error {
	var errs []error
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	for _, p := range e.Pending {
		if p.Err != nil {
			errs = append(errs, p.Err)
		}
	}
	return errs
}
