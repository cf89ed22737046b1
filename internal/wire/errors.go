package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrMalformed means that a body is not in the expected format.
	ErrMalformed = errors.New("malformed body")
	// ErrTruncated means that a body ended within a frame or a list.
	ErrTruncated = errors.New("body ended early")
	// ErrTooLarge means that a frame, or the space between two frames, is over the limit.
	ErrTooLarge = errors.New("frame over the size limit")
)

// headSize is the number of first bytes of a body that are kept: enough for the title of a proxy's
// error page.
const headSize = 512

// Error is a body that cannot be cut any further. It wraps [ErrMalformed], [ErrTruncated] or
// [ErrTooLarge].
type Error struct {
	// Offset is the number of bytes before the faulty frame.
	Offset int64
	// Head is the beginning of the body: at most 512 bytes.
	Head []byte
	// Err is one of the three, with details.
	Err error
}

// Error names the problem and its place. It quotes the beginning of the body only if API servers
// send no such text, as when a proxy answers. Other bodies begin with objects, which may be
// Secrets.
func (e *Error) Error() string {
	const most = 120
	head := bytes.TrimSpace(e.Head[:min(len(e.Head), most)])
	isText := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPrint(r) && r != utf8.RuneError }
	if len(head) == 0 || head[0] == '{' || head[0] == '[' || len(bytes.TrimLeftFunc(head, isText)) > 0 {
		return fmt.Sprintf("%v at byte %d", e.Err, e.Offset)
	}
	return fmt.Sprintf("%v at byte %d; the body begins with %q", e.Err, e.Offset, head)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// malformed returns an [ErrMalformed] with details. It cuts long details, because the server
// controls their length.
func malformed(format string, args ...any) error {
	const most = 256
	text := fmt.Sprintf(format, args...)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Errorf("%w: %s", ErrMalformed, text)
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w of %d bytes", ErrTooLarge, limit)
}
