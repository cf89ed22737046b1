package wire

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/internal/cut"
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

// malformed returns an [ErrMalformed] with details. It cuts long details, because the server
// controls their length.
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, cut.Text(fmt.Sprintf(format, args...), 256))
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w of %d bytes", ErrTooLarge, limit)
}
