package wire

// peekJSON reads an object until it knows the four fields, or until the metadata ends.
func peekJSON(object []byte) (Identity, bool) {
	var id Identity
	b := object[skipSpace(object):]
	if len(b) == 0 || b[0] != '{' {
		return id, false
	}
	b = b[1:]
	for {
		name, rest, ok := peekName(b)
		if !ok {
			return id, false
		}
		b = rest
		if string(name) == "metadata" {
			return id, id.peekMetadata(b)
		}
		n := endOfValue(b, &value{})
		if n <= 0 {
			return id, false
		}
		if b, ok = peekComma(b[n:]); !ok {
			return id, false // there is no metadata
		}
	}
}

// peekMetadata reports whether it read all fields of the identity in the metadata.
func (id *Identity) peekMetadata(b []byte) bool {
	if len(b) == 0 || b[0] != '{' {
		return false
	}
	b = b[1:]
	for {
		name, rest, ok := peekName(b)
		if !ok {
			return false
		}
		b = rest
		n := endOfValue(b, &value{})
		if n <= 0 {
			return false
		}
		if part := id.member(name); part != nil {
			if b[0] != '"' || *part != nil || !isPlain(b[1:n-1]) {
				return false
			}
			*part = b[1 : n-1]
			if id.UID != nil && id.ResourceVersion != nil && id.Namespace != nil && id.Name != nil {
				return true
			}
		}
		b = b[n:]
		b = b[skipSpace(b):]
		if len(b) > 0 && b[0] == '}' {
			return true
		}
		if b, ok = peekComma(b); !ok {
			return false
		}
	}
}

// peekName reads the name of a member and the colon, and returns the bytes after them. It returns
// false for a name with escapes or characters outside of ASCII.
func peekName(b []byte) (name, rest []byte, ok bool) {
	b = b[skipSpace(b):]
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	n := endOfString(b, 1)
	if n == 0 || !isPlain(b[1:n-1]) {
		return nil, nil, false
	}
	name, b = b[1:n-1], b[n:]
	b = b[skipSpace(b):]
	if len(b) == 0 || b[0] != ':' {
		return nil, nil, false
	}
	b = b[1:]
	return name, b[skipSpace(b):], true
}

func peekComma(b []byte) ([]byte, bool) {
	b = b[skipSpace(b):]
	if len(b) == 0 || b[0] != ',' {
		return nil, false
	}
	return b[1:], true
}
