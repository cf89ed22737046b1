package wire

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/kubereflector/kubereflector/internal/discreet"
)

// magic is the prefix of a Kubernetes protobuf message with an envelope.
var magic = []byte("k8s\x00")

// The wire types of protobuf that Kubernetes uses.
const (
	varintType  = 0
	fixed64Type = 1
	bytesType   = 2
	fixed32Type = 5
)

// Field is a field of a protobuf message, as bytes.
type Field struct {
	// Number and Type come from the field's tag.
	Number, Type int
	// Raw is the whole field. Value is its content without tag and length; it is nil unless the
	// type is that for bytes, strings and messages.
	Raw, Value []byte
}

// NextField reads the field at the beginning of b. It returns io.ErrUnexpectedEOF if the field is
// incomplete, and [ErrMalformed] if it is invalid.
func NextField(b []byte) (Field, error) {
	tag, n := binary.Uvarint(b)
	if n <= 0 {
		return Field{}, varintError(n)
	}
	if tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return Field{}, malformed("a field has the number %d", tag>>3)
	}
	f := Field{Number: int(tag >> 3), Type: int(tag & 7)}
	switch f.Type {
	case varintType:
		_, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return Field{}, varintError(m)
		}
		n += m
	case fixed64Type:
		n += 8
	case fixed32Type:
		n += 4
	case bytesType:
		size, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return Field{}, varintError(m)
		}
		n += m
		if uint64(len(b)-n) < size {
			return Field{}, io.ErrUnexpectedEOF
		}
		f.Value = b[n : n+int(size)]
		n += int(size)
	default:
		return Field{}, malformed("a field has the wire type %d", f.Type)
	}
	if n > len(b) {
		return Field{}, io.ErrUnexpectedEOF
	}
	f.Raw = b[:n]
	return f, nil
}

func varintError(n int) error {
	if n == 0 {
		return io.ErrUnexpectedEOF
	}
	return malformed("a number has too many bytes")
}

// fields calls each for the fields of a message.
func fields(b []byte, each func(Field) error) error {
	for len(b) > 0 {
		f, err := NextField(b)
		if err == io.ErrUnexpectedEOF {
			return malformed("a field is longer than its message")
		}
		if err != nil {
			return err
		}
		if err := each(f); err != nil {
			return err
		}
		b = b[len(f.Raw):]
	}
	return nil
}

// envelope is a runtime.Unknown.
type envelope struct{ apiVersion, kind, raw []byte }

// field reads a field of the envelope other than its contents.
func (e *envelope) field(f Field) error {
	switch {
	case f.Number == 1 && f.Type == bytesType:
		return fields(f.Value, func(f Field) error {
			switch {
			case f.Number == 1 && f.Type == bytesType:
				e.apiVersion = f.Value
			case f.Number == 2 && f.Type == bytesType:
				e.kind = f.Value
			}
			return nil
		})
	case f.Number == 3 && len(f.Value) > 0:
		return malformed("an object has the content encoding %q", f.Value)
	case f.Number == 4 && len(f.Value) > 0 && string(f.Value) != "application/vnd.kubernetes.protobuf":
		return malformed("an object has the content type %q", f.Value)
	}
	return nil
}

// openEnvelope reads the envelope of an object.
func openEnvelope(b []byte) (envelope, error) {
	var e envelope
	if len(b) < len(magic) || string(b[:len(magic)]) != string(magic) {
		return e, malformed("an object does not begin with %q", magic)
	}
	err := fields(b[len(magic):], func(f Field) error {
		if f.Number == 2 && f.Type == bytesType {
			e.raw = f.Value
			return nil
		}
		return e.field(f)
	})
	if e.raw == nil {
		e.raw = []byte{} // a message without fields
	}
	return e, err
}

// prefixSize is the number of bytes of the length before an event.
const prefixSize = 4

// protobufEvents cuts protobuf events.
type protobufEvents struct{ limit int }

func (c *protobufEvents) cut(b []byte) (Frame, int, bool, error) {
	if len(b) < prefixSize {
		return Frame{}, 0, false, nil
	}
	size := uint64(binary.BigEndian.Uint32(b))
	if size > uint64(c.limit) {
		return Frame{}, 0, false, tooLarge(c.limit)
	}
	end := prefixSize + int(size)
	if len(b) < end {
		return Frame{}, 0, false, nil
	}
	frame, err := openEvent(b[prefixSize:end])
	return frame, end, err == nil, err
}

// openEvent reads a WatchEvent. API servers send it without an envelope; openEvent accepts both
// forms.
func openEvent(b []byte) (Frame, error) {
	if bytes.HasPrefix(b, magic) {
		e, err := openEnvelope(b)
		if err != nil {
			return Frame{}, err
		}
		b = e.raw
	}
	var frame Frame
	err := fields(b, func(f Field) error {
		switch {
		case f.Number == 1 && f.Type == bytesType:
			if frame.Type = eventType(f.Value); frame.Type == "" {
				frame.Type = string(f.Value)
			}
		case f.Number == 2 && f.Type == bytesType:
			return fields(f.Value, func(f Field) error {
				if f.Number != 1 || f.Type != bytesType || len(f.Value) == 0 {
					return nil
				}
				e, err := openEnvelope(f.Value)
				frame.APIVersion, frame.Kind, frame.Object = e.apiVersion, e.kind, e.raw
				return err
			})
		}
		return nil
	})
	return frame, err
}

func (c *protobufEvents) end(rest []byte) error {
	if len(rest) > 0 {
		return ErrTruncated
	}
	return nil
}

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
			return Frame{}, false, malformed("the list's metadata: %s", discreet.Text(err))
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
