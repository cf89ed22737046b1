package wire

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// place is the position of the next byte in a list.
type place int

const (
	before      place = iota // the list
	firstMember              // or the list's end
	otherMember
	memberColon
	memberValue
	afterMember
	firstItem // or the end of the items
	otherItem
	afterItem
	after // the list
)

// jsonItems cuts the items of a JSON list.
type jsonItems struct {
	meta  *ListMeta
	at    place
	name  string // the name of the current member
	seen  bool   // the list had the member items
	value value
}

func (c *jsonItems) cut(b []byte) (Frame, int, bool, error) {
	if space := skipSpace(b); space > 0 {
		return Frame{}, space, false, nil
	}
	switch c.at {
	case firstItem, otherItem:
		return c.cutItem(b)
	case firstMember, otherMember:
		if b[0] == '}' && c.at == firstMember {
			c.at = after
			return Frame{}, 1, false, nil
		}
		name, n, err := memberName(b, &c.value)
		if n > 0 {
			c.name, c.at = name, memberColon
		}
		return Frame{}, n, false, err
	case memberValue:
		n, err := c.cutMember(b)
		return Frame{}, n, false, err
	}
	return c.cutDelimiter(b)
}

func (c *jsonItems) cutItem(b []byte) (Frame, int, bool, error) {
	if b[0] == ']' && c.at == firstItem {
		c.at = afterMember
		return Frame{}, 1, false, nil
	}
	n := endOfValue(b, &c.value)
	if n < 0 {
		return Frame{}, 0, false, malformed("an item is missing")
	}
	if n == 0 {
		return Frame{}, 0, false, nil
	}
	c.at = afterItem
	return Frame{Object: b[:n]}, n, true, nil
}

func (c *jsonItems) cutDelimiter(b []byte) (Frame, int, bool, error) {
	switch {
	case c.at == before && b[0] == '{':
		c.at = firstMember
	case c.at == memberColon && b[0] == ':':
		c.at = memberValue
	case c.at == memberColon:
		return Frame{}, 0, false, malformed("a colon is missing after %q", c.name)
	case c.at == afterMember && b[0] == ',':
		c.at = otherMember
	case c.at == afterMember && b[0] == '}':
		c.at = after
	case c.at == afterItem && b[0] == ',':
		c.at = otherItem
	case c.at == afterItem && b[0] == ']':
		c.at = afterMember
	case c.at == before:
		return Frame{}, 0, false, malformed("a list must be a JSON object")
	case c.at == after:
		return Frame{}, 0, false, malformed("something follows the list")
	default:
		return Frame{}, 0, false, malformed("a comma or the end is missing in the list")
	}
	return Frame{}, 1, false, nil
}

// cutMember consumes a member's value. If the value holds the items, cutMember enters it.
func (c *jsonItems) cutMember(b []byte) (int, error) {
	if c.name == "items" && c.value == (value{}) {
		if c.seen {
			return 0, malformed("the list has items twice")
		}
		if b[0] == '[' {
			c.seen, c.at = true, firstItem
			return 1, nil
		}
	}
	n := endOfValue(b, &c.value)
	if n < 0 {
		return 0, malformed("member %q has no value", c.name)
	}
	if n == 0 {
		return 0, nil
	}
	c.at = afterMember
	return n, c.takeMember(b[:n])
}

var lenient = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	json.MatchCaseInsensitiveNames(false),
	jsonv1.ReportErrorsWithLegacySemantics(false),
	jsontext.AllowInvalidUTF8(true),
)

func (c *jsonItems) takeMember(v []byte) error {
	var err error
	switch c.name {
	case "metadata":
		err = json.Unmarshal(v, &c.meta.ListMeta, lenient)
	case "kind":
		err = json.Unmarshal(v, &c.meta.Kind, lenient)
	case "apiVersion":
		err = json.Unmarshal(v, &c.meta.APIVersion, lenient)
	case "items":
		if c.seen = true; string(v) != "null" {
			return malformed("the list's items are no array")
		}
	default:
		if !valid(v) {
			return malformed("the list's member %q is not JSON", c.name)
		}
	}
	if err != nil {
		return malformed("the list's member %q: %v", c.name, err)
	}
	return nil
}

func (c *jsonItems) end(rest []byte) error {
	if c.at != after || len(bytes.TrimSpace(rest)) > 0 {
		return ErrTruncated
	}
	if !c.seen {
		return c.meta.notList()
	}
	return nil
}
