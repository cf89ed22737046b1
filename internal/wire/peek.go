package wire

// Identity says which object something is, and in which version. Its slices point into
// the bytes that were looked at.
type Identity struct{ UID, ResourceVersion, Namespace, Name []byte }

// Peek reads the identity of an object from its bytes, as [Frame] has them. It says false
// if anything is unusual: without a UID, a resource version or a name, too.
func Peek(format Format, object []byte) (Identity, bool) {
	var (
		id Identity
		ok bool
	)
	switch format {
	case Protobuf:
		id, ok = peekProtobuf(object)
	case CBOR:
		id, ok = peekCBOR(object)
	default:
		id, ok = peekJSON(object)
	}
	if !ok || len(id.UID) == 0 || len(id.ResourceVersion) == 0 || len(id.Name) == 0 {
		return Identity{}, false
	}
	return id, true
}

// peekProtobuf looks at all fields of the object and of its metadata, for the last of a
// number is what counts.
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

// field returns what a field of a protobuf ObjectMeta is put in.
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

// member returns what a member of a JSON ObjectMeta is put in.
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
