package wire

// Identity is the identity and version of an object. Its slices point into the input bytes.
type Identity struct{ UID, ResourceVersion, Namespace, Name []byte }

// Peek reads the identity of an object from its bytes in a [Frame]. It returns false if anything is
// unusual, for example without a UID, a resource version or a name.
func Peek(format Format, object []byte) (Identity, bool) {
	peek := peekJSON
	if format == Protobuf {
		peek = peekProtobuf
	}
	id, ok := peek(object)
	if !ok || len(id.UID) == 0 || len(id.ResourceVersion) == 0 || len(id.Name) == 0 {
		return Identity{}, false
	}
	return id, true
}

// peekProtobuf reads all fields of the object and of its metadata, because the last field of a
// number takes effect.
func peekProtobuf(object []byte) (Identity, bool) {
	var metadata []byte
	for b := object; len(b) > 0; {
		f, err := NextField(b)
		if err != nil {
			return Identity{}, false
		}
		if f.Number == 1 {
			if f.Type != bytesType || metadata != nil {
				return Identity{}, false
			}
			metadata = f.Value
		}
		b = b[len(f.Raw):]
	}
	var id Identity
	for b := metadata; len(b) > 0; {
		f, err := NextField(b)
		if err != nil {
			return Identity{}, false
		}
		if part := id.field(f.Number); part != nil {
			if f.Type != bytesType {
				return Identity{}, false
			}
			*part = f.Value
		}
		b = b[len(f.Raw):]
	}
	return id, true
}

// field returns the part of the identity for a field of a protobuf ObjectMeta.
func (id *Identity) field(number int) *[]byte {
	switch number {
	case 1:
		return &id.Name
	case 3:
		return &id.Namespace
	case 5:
		return &id.UID
	case 6:
		return &id.ResourceVersion
	}
	return nil
}

// member returns the part of the identity for a member of a JSON ObjectMeta.
func (id *Identity) member(name []byte) *[]byte {
	switch string(name) {
	case "name":
		return &id.Name
	case "namespace":
		return &id.Namespace
	case "uid":
		return &id.UID
	case "resourceVersion":
		return &id.ResourceVersion
	}
	return nil
}
