package wire

// Format is how the body of an answer is encoded.
type Format int

// The formats that can be cut.
const (
	JSON Format = iota
	Protobuf
	CBOR
)

// String returns the format's name.
func (f Format) String() string {
	return [...]string{"JSON", "protobuf", "CBOR"}[f]
}

// DefaultLimit is the most bytes that a frame may have unless something else is asked for:
// ten times what etcd stores under one key by default.
const DefaultLimit = 16 << 20
