package compact

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

// Packed is an object in few bytes. It says its key and its version by itself, so that a
// [store.Cache] of them works as one of objects does; for all else ask [Packed.Object].
//
// Get one from [Packer.Pack]. It never changes, and all methods are safe for concurrent
// use.
type Packed[T any] struct {
	by *dictionary[T]
	// data has the parts of a header, each behind its length, and then the object.
	data string
	// live is the object while it is one of those that are kept decoded.
	live atomic.Pointer[live[T]]
}

// live is an object that is kept decoded.
type live[T any] struct {
	object T
	used   atomic.Bool // since the last time that room was needed
}

// The parts of the header.
const (
	cluster = iota
	namespace
	name
	uid
	version
	parts
)

// appendHeader appends what a packed object says without being decoded.
func appendHeader(into []byte, key store.Key, of store.Version) []byte {
	for _, part := range [parts]string{
		cluster: key.Cluster, namespace: key.Namespace, name: key.Name, uid: string(of.UID), version: of.ResourceVersion,
	} {
		into = binary.AppendUvarint(into, uint64(len(part)))
		into = append(into, part...)
	}
	return into
}

// part returns a part of the header, or of all that follows it.
func (p *Packed[T]) part(which int) string {
	rest := p.data
	for at := 0; at < parts; at++ {
		length, n := uvarint(rest)
		if at == which {
			return rest[n : n+length]
		}
		rest = rest[n+length:]
	}
	return rest
}

// uvarint is [binary.Uvarint] of a string, of lengths that were written here.
func uvarint(s string) (value, n int) {
	for shift := 0; ; shift += 7 {
		b := s[n]
		n++
		value |= int(b&0x7f) << shift
		if b < 0x80 {
			return value, n
		}
	}
}

// GetName returns the object's name: see [store.Key].
func (p *Packed[T]) GetName() string { return p.part(name) }

// GetNamespace returns the object's namespace: see [store.Key].
func (p *Packed[T]) GetNamespace() string { return p.part(namespace) }

// GetUID returns the object's UID.
func (p *Packed[T]) GetUID() types.UID { return types.UID(p.part(uid)) }

// GetResourceVersion returns the object's resource version.
func (p *Packed[T]) GetResourceVersion() string { return p.part(version) }

// Size returns how many bytes the object takes as it is packed, its key and version
// included.
func (p *Packed[T]) Size() int { return len(p.data) }

// MemorySize is what memsize.Of and so a [store.Budget] take for the size: that of the
// packed object in memory. What all share, such as dictionaries, and what is decoded at the
// moment are not in it.
func (p *Packed[T]) MemorySize() int64 {
	if p == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*p)) + int64(len(p.data))
}

// Object returns the object. It is read-only: others may be given the same one. As long as
// it is among those that are kept decoded (see [WithRecent]), it is the same pointer.
//
// It panics with a [*DecodeError] if what was packed cannot be decoded: see
// [Packed.Decode].
func (p *Packed[T]) Object() T {
	object, err := p.object(true)
	if err != nil {
		panic(err)
	}
	return object
}

// Decode is Object with an error, which is a [*DecodeError]. There is none unless the
// generated methods of T do not fit each other.
func (p *Packed[T]) Decode() (T, error) { return p.object(true) }

// object returns the object, and keeps it decoded if asked for. Walks do not: they would
// drive out what is read again and again.
func (p *Packed[T]) object(keep bool) (T, error) {
	if l := p.live.Load(); l != nil {
		if keep && !l.used.Load() {
			l.used.Store(true)
		}
		return l.object, nil
	}
	object, err := p.by.unpack(p.part(parts))
	if err != nil {
		var none T
		key, _ := Key(p)
		return none, &DecodeError{Key: key, Err: err}
	}
	if keep {
		object = p.by.packer.recent.keep(p, object)
	}
	return object, nil
}

// Key is the KeyFunc of packed objects: their keys are those of the objects. It fails for
// nil as [store.ObjectKey] does.
func Key[T any](p *Packed[T]) (store.Key, error) {
	key, err := store.ObjectKey(p)
	if err == nil {
		key.Cluster = p.part(cluster)
	}
	return key, err
}
