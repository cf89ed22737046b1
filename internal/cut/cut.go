package cut

import "unicode/utf8"

const (
	// MaxText is the largest size of an error's text in bytes. MaxMessage is the largest kept part
	// of a server's message: a server has sent 15 MB.
	MaxText    = 1 << 10
	MaxMessage = 512
	MaxName    = 253 // the longest name of an object, by the rules of DNS
)

// Text shortens a text to at most n bytes. A shortened text does not keep the memory of the
// original.
func Text(text string, n int) string {
	const more = "…"
	if len(text) <= n {
		return text
	}
	n -= len(more)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + more
}

// Error returns an error with the text "what: err" of at most 1 KiB, which wraps err.
func Error(what string, err error) error { return &wrapped{what, err} }

type wrapped struct {
	what string
	err  error
}

func (e *wrapped) Error() string {
	return Text(Text(e.what, MaxText-MaxMessage)+": "+e.err.Error(), MaxText)
}

func (e *wrapped) Unwrap() error { return e.err }
