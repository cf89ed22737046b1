package wire

// members calls each for the members of the JSON object b. It cuts values without validation, and
// validates everything between them.
func members(b []byte, each func(name string, v []byte) error) error {
	i := 1
	for first := true; ; first = false {
		i += skipSpace(b[i:])
		if i < len(b) && b[i] == '}' && first {
			break
		}
		name, n, err := memberName(b[i:], &value{})
		if err != nil {
			return err
		}
		i += n
		if i += skipSpace(b[i:]); n == 0 || i >= len(b) {
			return malformed("an object ends within a member")
		}
		if b[i] != ':' {
			return malformed("a colon is missing after %q", name)
		}
		i++
		i += skipSpace(b[i:])
		if n = endOfValue(b[i:], &value{}); n <= 0 {
			return malformed("member %q has no value", name)
		}
		if err := each(name, b[i:i+n]); err != nil {
			return err
		}
		i += n
		i += skipSpace(b[i:])
		if i >= len(b) {
			return malformed("an object ends within its members")
		}
		if b[i] == '}' {
			break
		}
		if b[i] != ',' {
			return malformed("a comma is missing after member %q", name)
		}
		i++
	}
	if i != len(b)-1 {
		return malformed("something follows an object's end")
	}
	return nil
}

// memberName reads the name of a member. It returns 0 if the name is incomplete.
func memberName(b []byte, v *value) (string, int, error) {
	if len(b) == 0 {
		return "", 0, nil
	}
	if b[0] != '"' {
		return "", 0, malformed("a member's name must be a string")
	}
	n := v.end(b)
	if n == 0 {
		return "", 0, nil
	}
	name, ok := unquote(b[:n])
	if !ok {
		return "", 0, malformed("a member's name is not a JSON string")
	}
	return name, n, nil
}

// endOfValue returns the length of the value at the beginning of b, 0 if the value is incomplete,
// and -1 if there is none. A number or a literal ends only at the byte after it.
func endOfValue(b []byte, v *value) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '{', '[', '"':
		return v.end(b)
	case ',', '}', ']', ':':
		return -1
	}
	for i := v.pos; i < len(b); i++ {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			*v = value{}
			return i
		}
	}
	v.pos = len(b)
	return 0
}
