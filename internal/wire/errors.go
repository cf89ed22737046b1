package wire

import (
	"errors"
	"fmt"
)

var (
	// ErrMalformed means that a body is not of the format that it should be of.
	ErrMalformed = errors.New("malformed body")
	// ErrTruncated means that a body ended within a frame or a list.
	ErrTruncated = errors.New("body ended early")
	// ErrTooLarge means that a frame has more bytes than the limit allows.
	ErrTooLarge = errors.New("frame over the size limit")
)

// headSize is how many first bytes of a body are kept: enough for the title of a proxy's
// error page.
const headSize = 512

// Error is a body that cannot be cut any further. It is an [ErrMalformed], an
// [ErrTruncated] or an [ErrTooLarge].
type Error struct {
	// Offset is the number of bytes before the frame that is wrong.
	Offset int64
	// Head is how the body began: at most 512 bytes.
	Head []byte
	// Err is one of the three, with details.
	Err error
}

// Error names what is wrong, where, and how the body began.
func (e *Error) Error() string {
	const most = 120
	head, more := e.Head, ""
	if len(head) > most {
		head, more = head[:most], "…"
	}
	return fmt.Sprintf("%v at byte %d; the body begins with %q%s", e.Err, e.Offset, head, more)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
