package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/go-json-experiment/json"
)

// ownerReference has the needed fields of an owner reference.
type ownerReference struct {
	UID        string `json:"uid"`
	Controller *bool  `json:"controller"`
}

// PeekOwner reads the UID of an object's controlling owner from the object's bytes in a [Frame].
// The UID is empty if there is no such owner. ok is false if anything is unusual.
func PeekOwner(format Format, object []byte) (uid string, ok bool) {
	if format == Protobuf {
		return ownerInProtobuf(object)
	}
	metadata, found, ok := memberOf(object, "metadata")
	if !ok || !found {
		return "", false
	}
	references, found, ok := memberOf(metadata, "ownerReferences")
	if !ok || !found {
		return "", ok
	}
	return ownerInJSON(references)
}

// memberOf returns the value of a member of a JSON object. It reads the names of all members.
func memberOf(object []byte, wanted string) (v []byte, found, ok bool) {
	b := object[skipSpace(object):]
	if len(b) == 0 || b[0] != '{' {
		return nil, false, false
	}
	if b = b[1:]; bytes.HasPrefix(b[skipSpace(b):], []byte("}")) {
		return nil, false, true
	}
	for {
		name, rest, ok := peekName(b)
		if !ok {
			return nil, false, false
		}
		n := endOfValue(rest, &value{})
		if n <= 0 || found && string(name) == wanted {
			return nil, false, false
		}
		if string(name) == wanted {
			v, found = rest[:n], true
		}
		b = rest[n:]
		if b = b[skipSpace(b):]; len(b) > 0 && b[0] == '}' {
			return v, found, true
		}
		if b, ok = peekComma(b); !ok {
			return nil, false, false
		}
	}
}

func ownerInJSON(references []byte) (string, bool) {
	var owners []ownerReference
	if json.Unmarshal(references, &owners, lenient) != nil {
		return "", false
	}
	for _, owner := range owners {
		if owner.Controller != nil && *owner.Controller {
			return owner.UID, true
		}
	}
	return "", true
}

// ownerInProtobuf reads field 13 of the metadata, which is repeated.
func ownerInProtobuf(object []byte) (uid string, ok bool) {
	metadata := 0
	found := false
	err := fields(object, func(f Field) error {
		if f.Number != 1 {
			return nil
		}
		if metadata++; f.Type != bytesType {
			return malformed("metadata has the wire type %d", f.Type)
		}
		return fields(f.Value, func(f Field) error {
			if f.Number != 13 || found {
				return nil
			}
			var err error
			uid, found, err = controllerIn(f)
			return err
		})
	})
	return uid, err == nil && metadata == 1
}

// controllerIn returns the UID of an owner reference, and whether it references a controller.
func controllerIn(reference Field) (uid string, controls bool, err error) {
	if reference.Type != bytesType {
		return "", false, malformed("an owner reference has the wire type %d", reference.Type)
	}
	err = fields(reference.Value, func(f Field) error {
		switch {
		case f.Number == 4 && f.Type == bytesType:
			uid = string(f.Value)
		case f.Number == 6 && f.Type == varintType:
			_, tag := binary.Uvarint(f.Raw)
			set, _ := binary.Uvarint(f.Raw[tag:])
			controls = set != 0
		}
		return nil
	})
	if !controls {
		uid = ""
	}
	return uid, controls, err
}
