package wire

import utiljson "k8s.io/apimachinery/pkg/util/json"

// Format is the encoding of a response body.
type Format int

// The supported formats.
const (
	JSON Format = iota
	Protobuf
)

// String returns the format's name.
func (f Format) String() string {
	return [...]string{"JSON", "protobuf"}[f]
}

// DefaultLimit is the default limit of a frame in bytes: ten times etcd's default limit for one
// key.
const DefaultLimit = 16 << 20

// Unmarshal decodes a type that every API has.
func Unmarshal(format Format, data []byte, into interface{ Unmarshal([]byte) error }) error {
	if format == Protobuf {
		return into.Unmarshal(data)
	}
	return utiljson.Unmarshal(data, into)
}
