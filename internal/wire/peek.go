package wire

import (
	"encoding/binary"
	"hash/maphash"
)

// Identity is the identity and version of an object. Its slices point into the input bytes.
type Identity struct{ UID, ResourceVersion, Namespace, Name []byte }

// Peek reads the identity of an object from its bytes in a [Frame]. It returns false if anything is
// unusual, for example without a UID, a resource version or a name.
func Peek(format Format, object []byte) (Identity, bool) {
	o, ok := Look(format, object, false)
	return o.Identity, ok
}

// Outline is what a quick look at the bytes of an object shows: its identity, and which of the bytes
// are its content. The content leaves out the top-level kind and apiVersion, because a watch states
// them and a list may not, and metadata.managedFields for a client that drops it.
type Outline struct {
	Identity
	object []byte
	gaps   [3]gap // bytes that are no content, in order; the last ones may be empty
	used   int    // of gaps
	// header is true for a message of protobuf with gaps. Its content has no boundaries of
	// fields then, so the hash begins with the place and the length of the metadata.
	header       bool
	before, kept int
}

// gap is a range of bytes.
type gap struct{ from, to int }

// skip leaves out some bytes that follow the last gap.
func (o *Outline) skip(from, to int) {
	if n := o.used; n > 0 && o.gaps[n-1].to == from {
		o.gaps[n-1].to = to
		return
	}
	if o.used < len(o.gaps) { // else they count as content, which costs a comparison
		o.gaps[o.used] = gap{from, to}
		o.used++
	}
}

// Look returns the outline of an object. It returns false for the identity if anything is unusual,
// for example without a UID, a resource version or a name; the hash is right even then.
func Look(format Format, object []byte, withoutManagedFields bool) (o Outline, ok bool) {
	o.object = object
	if format == Protobuf {
		ok = o.lookProtobuf(withoutManagedFields)
	} else {
		ok = o.lookJSON(withoutManagedFields)
	}
	if !ok || len(o.UID) == 0 || len(o.ResourceVersion) == 0 || len(o.Name) == 0 {
		o.Identity = Identity{} // every stored object of an API server has the three
		return o, false
	}
	return o, true
}

// seed makes the hashes of a process secret. An object that an attacker wrote must not get the hash
// of another one: a cache would keep the earlier object.
var seed = maphash.MakeSeed()

// Hash returns the hash of the content, never 0. It depends on the order and the spaces of JSON: two
// hashes that differ prove nothing. 64 bits suffice, because only two states of one object under one
// resource version are ever compared, and because the key of the hash is secret.
func (o *Outline) Hash() uint64 {
	var sum uint64
	if at := o.gaps[0].to; !o.header && o.used <= 1 && (o.used == 0 || o.gaps[0].from == 0) {
		sum = maphash.Bytes(seed, o.object[at:])
	} else {
		sum = o.hashParts()
	}
	return max(sum, 1)
}

func (o *Outline) hashParts() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	if o.header {
		var header [16]byte
		binary.LittleEndian.PutUint64(header[:], uint64(o.before))
		binary.LittleEndian.PutUint64(header[8:], uint64(o.kept))
		_, _ = h.Write(header[:])
	}
	at := 0
	for _, g := range o.gaps[:o.used] {
		_, _ = h.Write(o.object[at:g.from])
		at = g.to
	}
	_, _ = h.Write(o.object[at:])
	return h.Sum64()
}

// lookJSON reads an object until it knows the four fields and the gaps, or until the metadata ends.
func (o *Outline) lookJSON(withoutManagedFields bool) bool {
	at := skipSpace(o.object)
	if at == len(o.object) || o.object[at] != '{' {
		return false
	}
	at++
	at += skipSpace(o.object[at:])
	o.skip(0, at)
	for {
		name, rest, ok := peekName(o.object[at:])
		if !ok {
			return false
		}
		if string(name) == "metadata" {
			return o.lookMetadata(len(o.object)-len(rest), withoutManagedFields)
		}
		n := endOfValue(rest, &value{})
		if n <= 0 {
			return false
		}
		if rest, ok = peekComma(rest[n:]); !ok {
			return false // there is no metadata
		}
		next := len(o.object) - len(rest) + skipSpace(rest)
		if string(name) == "kind" || string(name) == "apiVersion" {
			o.skip(at, next)
		}
		at = next
	}
}

// lookMetadata reads the metadata from a position on. It reports whether it read all fields of the
// identity.
func (o *Outline) lookMetadata(at int, withoutManagedFields bool) bool {
	if at == len(o.object) || o.object[at] != '{' {
		return false
	}
	at++
	managed := !withoutManagedFields // there is nothing to look for, or it was found
	for {
		at += skipSpace(o.object[at:])
		name, rest, ok := peekName(o.object[at:])
		if !ok {
			return false
		}
		n := endOfValue(rest, &value{})
		if n <= 0 {
			return false
		}
		end := len(o.object) - len(rest) + n
		var part *[]byte
		switch string(name) {
		case "name":
			part = &o.Name
		case "namespace":
			part = &o.Namespace
		case "uid":
			part = &o.UID
		case "resourceVersion":
			part = &o.ResourceVersion
		}
		if part != nil {
			if rest[0] != '"' || *part != nil || !isPlain(rest[1:n-1]) {
				return false
			}
			*part = rest[1 : n-1]
		} else if !managed && string(name) == "managedFields" {
			o.skip(at, end)
			managed = true
		}
		if managed && o.UID != nil && o.ResourceVersion != nil && o.Namespace != nil && o.Name != nil {
			return true
		}
		rest = rest[n:]
		rest = rest[skipSpace(rest):]
		if len(rest) > 0 && rest[0] == '}' {
			return true
		}
		if rest, ok = peekComma(rest); !ok {
			return false
		}
		at = len(o.object) - len(rest)
	}
}

// PeekKind returns the kind that the bytes of a JSON object state, as far as a quick look shows it.
func PeekKind(object []byte) (apiVersion, kind []byte) {
	b := object[skipSpace(object):]
	for ok := len(b) > 0 && b[0] == '{'; ok && (apiVersion == nil || kind == nil); {
		name, rest, named := peekName(b[1:])
		n := endOfValue(rest, &value{})
		if !named || n <= 0 {
			break
		}
		if text := rest[:n]; text[0] == '"' && string(name) == "kind" {
			kind = text[1 : n-1]
		} else if text[0] == '"' && string(name) == "apiVersion" {
			apiVersion = text[1 : n-1]
		}
		b = rest[n:]
		b = b[skipSpace(b):]
		ok = len(b) > 0 && b[0] == ','
	}
	return apiVersion, kind
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

// managedFieldsNumber is the number of the field in a protobuf ObjectMeta.
const managedFieldsNumber = 17

// lookProtobuf reads all fields of the object and of its metadata, because the last field of a
// number takes effect.
func (o *Outline) lookProtobuf(withoutManagedFields bool) bool {
	var metadata []byte
	at, value, end := 0, 0, 0 // of the metadata
	for b := o.object; len(b) > 0; {
		f, err := NextField(b)
		if err != nil {
			return false
		}
		if f.Number == 1 {
			if f.Type != bytesType || metadata != nil {
				return false
			}
			metadata, at = f.Value, len(o.object)-len(b)
			end = at + len(f.Raw)
			value = end - len(metadata)
		}
		b = b[len(f.Raw):]
	}
	managed := gap{value, value} // the first fields that follow each other
	for b := metadata; len(b) > 0; {
		f, err := NextField(b)
		if err != nil {
			return false
		}
		var part *[]byte
		switch f.Number {
		case 1:
			part = &o.Name
		case 3:
			part = &o.Namespace
		case 5:
			part = &o.UID
		case 6:
			part = &o.ResourceVersion
		}
		if part != nil {
			if f.Type != bytesType {
				return false
			}
			*part = f.Value
		}
		if from := end - len(b); f.Number == managedFieldsNumber && (managed.to == value || managed.to == from) {
			if managed.to == value {
				managed.from = from
			}
			managed.to = from + len(f.Raw)
		}
		b = b[len(f.Raw):]
	}
	if withoutManagedFields && metadata != nil {
		o.header, o.before, o.kept = true, at, len(metadata)-(managed.to-managed.from)
		o.skip(at, value)
		o.skip(managed.from, managed.to)
	}
	return true
}
