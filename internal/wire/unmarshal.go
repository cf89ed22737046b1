package wire

import utiljson "k8s.io/apimachinery/pkg/util/json"

// Unmarshal decodes a type that every API has.
func Unmarshal(format Format, data []byte, into interface{ Unmarshal([]byte) error }) error {
	if format == Protobuf {
		return into.Unmarshal(data)
	}
	return utiljson.Unmarshal(data, into)
}
