package wire

import "github.com/go-json-experiment/json"

// cborItems cuts the items of a CBOR list.
type cborItems struct {
	meta *ListMeta
	at   place
	name string // the name of the current member
	seen bool   // the list had the member items

	members, items uint64 // the remaining ones
	value          cborValue
}

func (c *cborItems) cut(b []byte) (Frame, int, bool, error) {
	switch c.at {
	case before:
		n, entered, err := c.enter(b, cborMap, &c.members)
		if entered {
			c.next()
		}
		return Frame{}, n, false, err
	case otherMember:
		if b[0] == cborBreak && c.members == endless {
			c.at = after
			return Frame{}, 1, false, nil
		}
		n, err := c.memberName(b)
		return Frame{}, n, false, err
	case memberValue:
		n, err := c.member(b)
		return Frame{}, n, false, err
	case otherItem:
		return c.cutItem(b)
	}
	return Frame{}, 0, false, malformed("something follows the list")
}

func (c *cborItems) cutItem(b []byte) (Frame, int, bool, error) {
	if b[0] == cborBreak && c.items == endless {
		c.next()
		return Frame{}, 1, false, nil
	}
	n, err := c.value.end(b)
	if n == 0 || err != nil {
		return Frame{}, 0, false, err
	}
	if c.items != endless {
		if c.items--; c.items == 0 {
			c.next()
		}
	}
	return Frame{Object: untagged(b[:n])}, n, true, nil
}

// next goes to the next member, or to the end of the list. A list with a known number of members
// has no end mark.
func (c *cborItems) next() {
	if c.at = otherMember; c.members == 0 {
		c.at = after
	}
}

// enter reads the head of a map or an array, or tags before it.
func (c *cborItems) enter(b []byte, major byte, count *uint64) (n int, entered bool, err error) {
	h, err := readCBORHead(b)
	switch {
	case err != nil || h.size == 0:
		return 0, false, err
	case h.major == cborTag:
		return h.size, false, nil
	case h.major != major:
		return 0, false, malformed("a list must be a CBOR map, and its items an array")
	}
	*count = h.arg
	return h.size, true, nil
}

func (c *cborItems) memberName(b []byte) (int, error) {
	n, err := c.value.end(b)
	if n == 0 || err != nil {
		return 0, err
	}
	name, ok := cborString(b[:n])
	if !ok {
		return 0, malformed("a member's name must be a string")
	}
	c.name, c.at = string(name), memberValue
	if c.members != endless {
		c.members--
	}
	return n, nil
}

// member consumes a member's value. If the value holds the items, member enters it.
func (c *cborItems) member(b []byte) (int, error) {
	if c.name == "items" && b[0] != cborNull {
		if c.seen {
			return 0, malformed("the list has items twice")
		}
		n, entered, err := c.enter(b, cborArray, &c.items)
		if entered {
			if c.seen, c.at = true, otherItem; c.items == 0 {
				c.next()
			}
		}
		return n, err
	}
	n, err := c.value.end(b)
	if n == 0 || err != nil {
		return 0, err
	}
	c.next()
	var into any
	switch c.name {
	case "metadata":
		into = &c.meta.ListMeta
	case "kind":
		into = &c.meta.Kind
	case "apiVersion":
		into = &c.meta.APIVersion
	case "items":
		c.seen = true
		return n, nil
	default:
		return n, nil
	}
	text, err := AppendJSON(nil, b[:n])
	if err == nil {
		err = json.Unmarshal(text, into, lenient)
	}
	if err != nil {
		return 0, malformed("the list's member %q: %v", c.name, err)
	}
	return n, nil
}

func (c *cborItems) end(rest []byte) error {
	if c.at != after || len(rest) > 0 {
		return ErrTruncated
	}
	if !c.seen {
		return c.meta.notList()
	}
	return nil
}
