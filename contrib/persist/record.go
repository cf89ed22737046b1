package persist

import (
	"encoding/binary"
	"hash/crc32"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/store"
)

// MaxKeyLength is the largest total length in bytes of the cluster, namespace and name of an
// object.
const MaxKeyLength = 8192

// keyBytes returns the encoding of a key in the file. It keeps the order of [store.Key.Compare].
// Each part ends with the bytes 0 1; a 0 inside a part becomes 0 255.
func keyBytes(key store.Key) []byte {
	b := make([]byte, 0, len(key.Cluster)+len(key.Namespace)+len(key.Name)+6)
	for _, part := range [...]string{key.Cluster, key.Namespace, key.Name} {
		for i := range len(part) {
			if b = append(b, part[i]); part[i] == 0 {
				b = append(b, 255)
			}
		}
		b = append(b, 0, 1)
	}
	return b
}

// keyOfBytes is the reverse of keyBytes.
func keyOfBytes(b []byte) (key store.Key, ok bool) {
	for _, part := range [...]*string{&key.Cluster, &key.Namespace, &key.Name} {
		var text []byte
		for {
			if len(b) == 0 {
				return key, false
			}
			c := b[0]
			b = b[1:]
			if c != 0 {
				text = append(text, c)
				continue
			}
			if len(b) == 0 {
				return key, false
			}
			end := b[0] == 1
			b = b[1:]
			if end {
				break
			}
			text = append(text, 0)
		}
		*part = string(text)
	}
	return key, len(b) == 0
}

// castagnoli has hardware support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a record with its key.
func checksum(key, content []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, content)
}

// seal prepends the checksum to the content of a record.
func seal(key, content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(content)), checksum(key, content)), content...)
}

// unseal verifies a record, and returns its content and its checksum.
func unseal(key, sealed []byte) (content []byte, sum uint32, ok bool) {
	if len(sealed) < 4 {
		return nil, 0, false
	}
	sum = binary.BigEndian.Uint32(sealed)
	return sealed[4:], sum, sum == checksum(key, sealed[4:])
}

// sumOf returns the checksum that a record contains.
func sumOf(sealed []byte) uint32 {
	if len(sealed) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(sealed)
}

// content returns the content of an object's record: the version and the encoded object.
func content(version store.Version, encoded []byte) []byte {
	b := make([]byte, 0, len(encoded)+len(version.UID)+len(version.ResourceVersion)+4)
	b = appendString(b, string(version.UID))
	b = appendString(b, version.ResourceVersion)
	return append(b, encoded...)
}

// contents is the inverse of content.
func contents(b []byte) (version store.Version, encoded []byte, ok bool) {
	uid, b, ok := cutString(b)
	resourceVersion, b, ok2 := cutString(b)
	return store.Version{UID: types.UID(uid), ResourceVersion: resourceVersion}, b, ok && ok2
}
