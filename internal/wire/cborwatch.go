package wire

// cborEvents cuts CBOR events, which follow each other directly.
type cborEvents struct{ value cborValue }

func (c *cborEvents) cut(b []byte) (Frame, int, bool, error) {
	if len(c.value.open) == 0 {
		h, err := readCBORHead(untagged(b[c.value.pos:]))
		if err == nil && h.size > 0 && h.major != cborMap {
			return Frame{}, 0, false, malformed("an event must be a CBOR map")
		}
	}
	n, err := c.value.end(b)
	if n == 0 || err != nil {
		return Frame{}, 0, false, err
	}
	var frame Frame
	err = cborMembers(b[:n], func(name, item []byte) error {
		switch string(name) {
		case "type":
			text, ok := cborString(item)
			if !ok {
				return malformed("an event's type must be a string")
			}
			if frame.Type = eventType(text); frame.Type == "" {
				frame.Type = string(text)
			}
		case "object":
			if frame.Object = untagged(item); frame.Object[0] == cborNull {
				frame.Object = nil
			}
		}
		return nil
	})
	return frame, n, err == nil, err
}

func (c *cborEvents) end(rest []byte) error {
	if len(rest) > 0 {
		return ErrTruncated
	}
	return nil
}
