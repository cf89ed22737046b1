package wire

import (
	"encoding/binary"
	"io"
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
