package wire

import (
	"bytes"
	"encoding/binary"
)

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
