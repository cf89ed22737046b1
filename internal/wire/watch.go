package wire

import "io"

// Watch cuts the body of a watch into events.
type Watch struct{ body body }

// NewWatch returns a watch that reads from r. A limit of 0 is [DefaultLimit] bytes. It is the limit of
// an event, and of all that comes between two events.
func NewWatch(r io.Reader, format Format, limit int) *Watch {
	if limit <= 0 {
		limit = DefaultLimit
	}
	w := &Watch{body: newBody(r, limit, &jsonEvents{})}
	switch format {
	case Protobuf:
		w.body.cutter = &protobufEvents{limit: limit}
	case CBOR:
		w.body.cutter = &cborEvents{}
	}
	return w
}

// Next waits for an event and returns it with all others that have come. It returns io.EOF
// when the body has ended where it may, an [*Error] if it cannot be cut, and else what r
// returned.
func (w *Watch) Next() (*Batch, error) { return w.body.next() }

// Head returns the first bytes of the body, for the text of an error: at most 512.
func (w *Watch) Head() []byte { return w.body.head }
