package wire

import (
	"encoding/binary"
	"io"
)

// protobufItems cuts the items of a protobuf list: an envelope around a message. As in every
// generated list, the first field of the message is the list's metadata, and the second, repeated,
// has the items.
type protobufItems struct {
	meta  *ListMeta
	limit int

	begun, seen bool // the envelope; its contents
	inside      bool // the contents
	left        uint64
}

func (c *protobufItems) cut(b []byte) (Frame, int, bool, error) {
	if !c.begun {
		if len(b) < len(magic) {
			return Frame{}, 0, false, nil
		}
		if string(b[:len(magic)]) != string(magic) {
			return Frame{}, 0, false, malformed("a list does not begin with %q", magic)
		}
		c.begun = true
		return Frame{}, len(magic), false, nil
	}
	if !c.inside {
		if n, err := c.enter(b); n > 0 || err != nil {
			return Frame{}, n, false, err
		}
	}
	visible := b
	if c.inside {
		visible = b[:min(c.left, uint64(len(b)))]
	}
	f, err := NextField(visible)
	if err == io.ErrUnexpectedEOF {
		err = c.more(b, visible)
	}
	if err != nil || f.Raw == nil {
		return Frame{}, 0, false, err
	}
	frame, ok, err := c.take(f)
	return frame, len(f.Raw), ok, err
}

// enter enters the contents of the envelope if b begins with them. It returns the number of
// consumed bytes.
func (c *protobufItems) enter(b []byte) (int, error) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag != 2<<3|bytesType {
		return 0, nil
	}
	size, m := binary.Uvarint(b[n:])
	if m < 0 {
		return 0, varintError(m)
	}
	if m == 0 {
		return 0, nil
	}
	if c.seen {
		return 0, malformed("the envelope of a list has two contents")
	}
	c.seen, c.inside, c.left = true, size > 0, size
	return n + m, nil
}

// more returns an error if an incomplete field cannot become complete.
func (c *protobufItems) more(b, visible []byte) error {
	if len(visible) < len(b) || (c.inside && uint64(len(b)) == c.left) {
		return malformed("a field is longer than the list")
	}
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag&7 != bytesType {
		return nil
	}
	size, m := binary.Uvarint(b[n:])
	if m > 0 && size > uint64(c.limit) {
		return tooLarge(c.limit)
	}
	return nil
}

func (c *protobufItems) take(f Field) (Frame, bool, error) {
	if !c.inside {
		if f.Number == 2 {
			return Frame{}, false, malformed("the contents of a list's envelope have the wire type %d", f.Type)
		}
		var e envelope
		err := e.field(f)
		if e.kind != nil {
			c.meta.APIVersion, c.meta.Kind = string(e.apiVersion), string(e.kind)
		}
		return Frame{}, false, err
	}
	c.left -= uint64(len(f.Raw))
	c.inside = c.left > 0
	switch {
	case f.Number == 1 && f.Type == bytesType:
		if err := c.meta.ListMeta.Unmarshal(f.Value); err != nil {
			return Frame{}, false, malformed("the list's metadata: %v", err)
		}
	case f.Number == 2 && f.Type == bytesType:
		return Frame{Object: f.Value}, true, c.meta.notList()
	case f.Number <= 2:
		return Frame{}, false, malformed("field %d of the list has the wire type %d", f.Number, f.Type)
	}
	return Frame{}, false, nil
}

func (c *protobufItems) end(rest []byte) error {
	if !c.seen || c.inside || len(rest) > 0 {
		return ErrTruncated
	}
	return nil
}
