package persist

import (
	"encoding/binary"
	"hash/crc32"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/store"
)

// MaxKeyLength is how many bytes cluster, namespace and name of an object may have
// together.
const MaxKeyLength = 8192

// keyBytes returns a key as the file has it, in which keys are in the order that
// [store.Key.Compare] gives them. Each part ends with 0 1; a 0 inside is 0 255.
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

// castagnoli has support in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a record, its key included.
func checksum(key, content []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, content)
}

// seal puts a checksum before what is written under a key.
func seal(key, content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(content)), checksum(key, content)), content...)
}

// unseal returns what was sealed, and its checksum, if it is what was written under
// the key.
func unseal(key, sealed []byte) (content []byte, sum uint32, ok bool) {
	if len(sealed) < 4 {
		return nil, 0, false
	}
	sum = binary.BigEndian.Uint32(sealed)
	return sealed[4:], sum, sum == checksum(key, sealed[4:])
}

// sumOf returns the checksum that is written in a record.
func sumOf(sealed []byte) uint32 {
	if len(sealed) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(sealed)
}

// content returns what is written of an object: its version, and its encoding.
func content(version store.Version, encoded []byte) []byte {
	b := make([]byte, 0, len(encoded)+len(version.UID)+len(version.ResourceVersion)+4)
	b = appendString(b, string(version.UID))
	b = appendString(b, version.ResourceVersion)
	return append(b, encoded...)
}

// contents is the reverse of content.
func contents(b []byte) (version store.Version, encoded []byte, ok bool) {
	uid, b, ok := cutString(b)
	resourceVersion, b, ok2 := cutString(b)
	return store.Version{UID: types.UID(uid), ResourceVersion: resourceVersion}, b, ok && ok2
}
