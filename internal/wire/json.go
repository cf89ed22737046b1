package wire

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"k8s.io/apimachinery/pkg/watch"
)

// jsonEvents cuts JSON events. After an event that fills a line, it cuts the next events at the
// ends of lines. Otherwise it counts brackets.
type jsonEvents struct {
	value   value
	lines   bool
	scanned int  // bytes without an end of a line
	closed  bool // the last of the scanned bytes that is no space is a }
}

func (c *jsonEvents) cut(b []byte) (Frame, int, bool, error) {
	if space := skipSpace(b); space > 0 {
		return Frame{}, space, false, nil
	}
	if b[0] != '{' {
		return Frame{}, 0, false, malformed("an event must be a JSON object")
	}
	if c.lines {
		if n := bytes.IndexByte(b[c.scanned:], '\n'); n >= 0 {
			n += c.scanned
			c.scanned = 0
			if frame, ok := cutLine(b[:n]); ok {
				c.value = value{}
				return frame, n + 1, true, nil
			}
			c.lines = false
		} else {
			if came := bytes.TrimRight(b[c.scanned:], " \t\r"); len(came) > 0 {
				c.closed = came[len(came)-1] == '}'
			}
			if c.scanned = len(b); !c.closed {
				return Frame{}, 0, false, nil
			}
			// The event may be complete although its newline has not come, and must not wait for it. Only
			// the brackets tell.
		}
	}
	n := c.value.end(b)
	if n == 0 {
		return Frame{}, 0, false, nil
	}
	c.scanned = 0
	frame, err := cutEvent(b[:n])
	if err != nil {
		return Frame{}, 0, false, err
	}
	if n < len(b) {
		c.lines = b[n] == '\n'
	}
	return frame, n, true, nil
}

func (c *jsonEvents) end(rest []byte) error {
	if skipSpace(rest) < len(rest) {
		return ErrTruncated
	}
	return nil
}

var (
	typePrefix   = []byte(`{"type":"`)
	objectPrefix = []byte(`","object":`)
)

// cutLine cuts an event in the form that API servers write. It returns false for every other line.
func cutLine(line []byte) (Frame, bool) {
	const longestType = 16
	if !bytes.HasPrefix(line, typePrefix) {
		return Frame{}, false
	}
	rest := line[len(typePrefix):]
	quote := bytes.IndexByte(rest[:min(len(rest), longestType)], '"')
	if quote < 0 {
		return Frame{}, false
	}
	kind := eventType(rest[:quote])
	rest = rest[quote:]
	if kind == "" || !bytes.HasPrefix(rest, objectPrefix) || !bytes.HasSuffix(rest, []byte("}}")) {
		return Frame{}, false
	}
	object := rest[len(objectPrefix) : len(rest)-1]
	if object[0] != '{' {
		return Frame{}, false
	}
	return Frame{Type: kind, Object: object, line: line}, true
}

// eventType returns one of the known types without allocating, and "" for others.
func eventType(b []byte) string {
	for _, t := range [...]watch.EventType{watch.Modified, watch.Added, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(b) == string(t) {
			return string(t)
		}
	}
	return ""
}

// cutEvent cuts an event with its members in any order.
func cutEvent(b []byte) (Frame, error) {
	var frame Frame
	err := members(b, func(name string, v []byte) error {
		switch name {
		case "type":
			if string(v) == "null" {
				return nil
			}
			text, ok := unquote(v)
			if !ok {
				return malformed("an event's type must be a string")
			}
			if frame.Type = eventType([]byte(text)); frame.Type == "" {
				frame.Type = text
			}
		case "object":
			if frame.Object != nil && !valid(frame.Object) {
				return malformed("an event has two objects")
			}
			if frame.Object = v; string(v) == "null" {
				frame.Object = nil
			}
		default:
			if !valid(v) {
				return malformed("an event's member %q is not JSON", name)
			}
		}
		return nil
	})
	return frame, err
}

// Single reports whether a frame certainly holds one event. A line that was cut without a scan of
// its inside may hold two, and only a decoder would detect that.
func (f *Frame) Single() bool {
	if f.line == nil {
		return true
	}
	// Only whitespace separates two events. It never separates } and { within one event.
	for b := f.Object; ; {
		n := bytes.IndexByte(b, '}')
		if n < 0 {
			return true
		}
		b = b[n+1:]
		if space := skipSpace(b); space < len(b) && b[space] == '{' {
			var v value
			return v.end(f.Object) == len(f.Object)
		}
	}
}

// Recut cuts a frame of a JSON watch again, with a full scan, and returns its events. Call it when
// the object turned out to be invalid JSON. Without an error it returns at least one frame.
func (f *Frame) Recut() ([]Frame, error) {
	if f.line == nil {
		return nil, malformed("an object is not JSON")
	}
	var (
		frames []Frame
		c      jsonEvents
	)
	for b := f.line; len(b) > 0; {
		frame, n, ok, err := c.cut(b)
		c.lines = false
		if err == nil && n == 0 {
			err = ErrTruncated
		}
		if err != nil {
			return nil, err
		}
		if ok {
			frames = append(frames, frame)
		}
		b = b[n:]
	}
	return frames, nil
}

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
		return malformed("the list's member %q: %s", c.name, discreet.Text(err))
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
