package wire

import (
	"encoding/binary"
	"slices"
)

// The major types of CBOR.
const (
	cborBytes  = 2
	cborText   = 3
	cborArray  = 4
	cborMap    = 5
	cborTag    = 6
	cborSimple = 7
)

const (
	cborNull  = 0xf6
	cborBreak = 0xff
	// endless is the number of elements of an item that ends with a break.
	endless = ^uint64(0)
	// cborDepth is the largest depth of nested values. API servers use up to 64.
	cborDepth = 256
)

// cborHead is the head of a data item.
type cborHead struct {
	major byte
	size  int    // of the head; 0 if it is incomplete
	arg   uint64 // endless if the item ends with a break
}

func readCBORHead(b []byte) (cborHead, error) {
	if len(b) == 0 {
		return cborHead{}, nil
	}
	h := cborHead{major: b[0] >> 5, size: 1, arg: uint64(b[0] & 0x1f)}
	switch more := h.arg; {
	case more < 24:
	case more < 28:
		h.size += 1 << (more - 24)
		if len(b) < h.size {
			return cborHead{}, nil
		}
		var wide [8]byte
		copy(wide[8-(h.size-1):], b[1:h.size])
		if h.arg = binary.BigEndian.Uint64(wide[:]); h.arg == endless {
			return h, malformed("a CBOR item is too long")
		}
	case more == 31 && h.major >= cborBytes && h.major != cborTag:
		h.arg = endless
	default:
		return h, malformed("a CBOR item begins with %#x", b[0])
	}
	return h, nil
}

// cborValue finds the end of a CBOR data item, as value does for JSON.
type cborValue struct {
	pos  int
	open []uint64 // remaining elements of open items, outermost first
}

// end returns the length of the item at the beginning of b, or 0 if the item is incomplete. The
// caller must then pass the same bytes again, with more.
func (v *cborValue) end(b []byte) (int, error) {
	for {
		h, err := readCBORHead(b[v.pos:])
		if err != nil || h.size == 0 {
			return 0, err
		}
		opened := false
		switch isBreak := b[v.pos] == cborBreak; {
		case isBreak && (len(v.open) == 0 || v.open[len(v.open)-1] != endless):
			return 0, malformed("a CBOR break ends nothing")
		case isBreak:
			v.open = v.open[:len(v.open)-1]
		case h.major == cborTag:
			v.pos += h.size
			continue // a tag belongs to the item after it
		case h.arg == endless:
			v.open, opened = append(v.open, endless), true
		case h.major == cborBytes || h.major == cborText:
			if uint64(len(b)-v.pos-h.size) < h.arg {
				return 0, nil
			}
			v.pos += int(h.arg)
		case h.major == cborArray && h.arg > 0:
			v.open, opened = append(v.open, h.arg), true
		case h.major == cborMap && h.arg > 0:
			if h.arg >= endless/2 {
				return 0, malformed("a CBOR map is too long")
			}
			v.open, opened = append(v.open, 2*h.arg), true
		}
		v.pos += h.size
		if len(v.open) > cborDepth {
			return 0, malformed("CBOR items are too deep within each other")
		}
		if !opened && v.closed() {
			n := v.pos
			*v = cborValue{open: v.open[:0]}
			return n, nil
		}
	}
}

// closed records the end of an item, and of the items that end with it. It reports whether the
// outermost item has ended.
func (v *cborValue) closed() bool {
	for len(v.open) > 0 {
		last := &v.open[len(v.open)-1]
		if *last == endless {
			return false
		}
		if *last--; *last > 0 {
			return false
		}
		v.open = v.open[:len(v.open)-1]
	}
	return true
}

// untagged returns the item at the beginning of b without its tags. API servers put a tag before a
// whole document, which marks it as CBOR.
func untagged(b []byte) []byte {
	for {
		h, err := readCBORHead(b)
		if err != nil || h.size == 0 || h.major != cborTag {
			return b
		}
		b = b[h.size:]
	}
}

// cborString returns the text of a string item. API servers encode strings as text or as bytes.
func cborString(item []byte) ([]byte, bool) {
	item = untagged(item)
	h, err := readCBORHead(item)
	if err != nil || h.size == 0 || h.arg == endless || h.major != cborBytes && h.major != cborText || uint64(len(item)-h.size) != h.arg {
		return nil, false
	}
	return item[h.size:], true
}

// cborMembers calls each for the members of the map b.
func cborMembers(b []byte, each func(name, item []byte) error) error {
	b = untagged(b)
	h, err := readCBORHead(b)
	if err != nil {
		return err
	}
	if h.size == 0 || h.major != cborMap {
		return malformed("a CBOR map is expected")
	}
	b = b[h.size:]
	var v cborValue
	for left := h.arg; left > 0; {
		if len(b) > 0 && b[0] == cborBreak && h.arg == endless {
			return nil
		}
		var pair [2][]byte
		for i := range pair {
			n, err := v.end(b)
			if err != nil {
				return err
			}
			if n == 0 {
				return malformed("a CBOR map ends within a member")
			}
			pair[i], b = b[:n], b[n:]
		}
		name, ok := cborString(pair[0])
		if !ok {
			return malformed("a member's name must be a string")
		}
		if err := each(name, pair[1]); err != nil {
			return err
		}
		if left != endless {
			left--
		}
	}
	return nil
}

// peekCBOR reads all members of the object and of its metadata.
func peekCBOR(object []byte) (id Identity, ok bool) {
	ok = true
	seen := false
	err := cborMembers(object, func(name, item []byte) error {
		if string(name) != "metadata" {
			return nil
		}
		ok, seen = !seen, true
		return cborMembers(item, func(name, item []byte) error {
			if part := id.member(name); part != nil {
				text, isText := cborString(item)
				ok = ok && isText && *part == nil
				*part = slices.Clip(text)
			}
			return nil
		})
	})
	return id, ok && err == nil
}
