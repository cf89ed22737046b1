package wire

import "io"

// Watch cuts the body of a watch into events.
type Watch struct{ body body }

// NewWatch returns a watch that reads from r. A limit of 0 means [DefaultLimit] bytes. The limit
// applies to each event, and to the bytes between two events.
func NewWatch(r io.Reader, format Format, limit int) *Watch {
	if limit <= 0 {
		limit = DefaultLimit
	}
	var c cutter = &jsonEvents{}
	if format == Protobuf {
		c = &protobufEvents{limit: limit}
	}
	return &Watch{body: newBody(r, limit, c)}
}

// Next waits for an event and returns it with all other events that have arrived. It returns io.EOF
// if the body has ended between events, an [*Error] if it cannot be cut, and otherwise the error of
// r.
func (w *Watch) Next() (*Batch, error) { return w.body.next() }

// Head returns the beginning of the body, at most 512 bytes, for error texts.
func (w *Watch) Head() []byte { return w.body.head }
