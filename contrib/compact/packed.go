package compact

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"unsafe"

	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

// Packed is an object in few bytes. It knows its key and its version without decoding, so that a
// [store.Cache] of packed objects works like a cache of objects. For all other fields, call
// [Packed.Object].
//
// Get one from [Packer.Pack]. It never changes, and all methods are safe for concurrent use.
type Packed[T any] struct {
	by *dictionary[T]
	// data has the parts of a header, each with its length, and then the encoded object.
	data string
	// live is the decoded object while the packer keeps it: see [WithRecent].
	live atomic.Pointer[live[T]]
}

// live is a decoded object that the packer keeps.
type live[T any] struct {
	object T
	used   atomic.Bool // since the packer last looked for a free slot
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

// appendHeader appends the key and the version of an object.
func appendHeader(into []byte, key store.Key, of store.Version) []byte {
	for _, part := range [parts]string{
		cluster: key.Cluster, namespace: key.Namespace, name: key.Name, uid: string(of.UID), version: of.ResourceVersion,
	} {
		into = binary.AppendUvarint(into, uint64(len(part)))
		into = append(into, part...)
	}
	return into
}

// part returns a part of the header, or everything after the header.
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

// uvarint is [binary.Uvarint] for a string. It reads only lengths that appendHeader wrote.
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

// Size returns the size in bytes of the packed object, with its key and version.
func (p *Packed[T]) Size() int { return len(p.data) }

// MemorySize returns the size of the packed object in memory, for the estimate of a
// [store.Budget]. It leaves out shared memory, such as dictionaries, and the decoded object.
func (p *Packed[T]) MemorySize() int64 {
	if p == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*p)) + int64(len(p.data))
}

// Object returns the object. It is read-only, because other readers may share it. While the packer
// keeps the object decoded (see [WithRecent]), Object returns the same pointer.
//
// It panics with a [*DecodeError] if it cannot decode the object: see [Packed.Decode].
func (p *Packed[T]) Object() T {
	return must(p.object(true))
}

func must[T any](object T, err error) T {
	if err != nil {
		panic(err)
	}
	return object
}

// Decode is Object, but returns a [*DecodeError] instead of a panic. It fails only if the generated
// methods of T cannot decode their own encoding.
func (p *Packed[T]) Decode() (T, error) { return p.object(true) }

// object returns the object, and keeps it decoded if keep is true. Iterations do not keep objects,
// because they would evict objects that other readers use again and again.
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

// EqualContent reports whether two packed objects have the same content: see [store.EqualContent].
// One object has several packed forms, because the dictionary changes, so EqualContent decodes the
// objects if their bytes differ.
func (p *Packed[T]) EqualContent(other *Packed[T]) bool {
	if p.by == other.by && p.data == other.data {
		return true
	}
	a, err := p.object(false)
	b, err2 := other.object(false)
	return err == nil && err2 == nil && store.EqualContent(a, b)
}

// Key is the KeyFunc of packed objects: it returns the key of the object. It fails for nil as
// [store.ObjectKey] does.
func Key[T any](p *Packed[T]) (store.Key, error) {
	key, err := store.ObjectKey(p)
	if err == nil {
		key.Cluster = p.part(cluster)
	}
	return key, err
}

// Objects decodes the objects of an iteration over packed objects, such as an iteration of an index
// or of a snapshot:
//
//	for key, pod := range compact.Objects(byNode.Get("node-1")) { ... }
//
// It does not keep the objects decoded. It panics as [Packed.Object] does.
func Objects[T any](walk iter.Seq2[store.Key, *Packed[T]]) iter.Seq2[store.Key, T] {
	return func(yield func(store.Key, T) bool) {
		for key, packed := range walk {
			if !yield(key, must(packed.object(false))) {
				return
			}
		}
	}
}

// By turns an index function of objects into an index function of packed objects, for
// [store.AddIndex]:
//
//	byNode, err := store.AddIndex(pods.Cache(), "node", compact.By(func(pod *corev1.Pod) []string { ... }))
//
// The cache runs the function when an object is written. A [Store] still has the written object
// then, and decodes nothing.
func By[T, I any](fn func(T) []I) func(*Packed[T]) []I {
	if fn == nil {
		return nil
	}
	return func(packed *Packed[T]) []I { return fn(must(packed.object(false))) }
}

// ErrNoStruct means that T is no pointer to a struct.
var ErrNoStruct = errors.New("only pointers to structs can be packed")

// DecodeError says that a packed object cannot be decoded. [Packer.Pack] decodes each object in
// JSON once, and rejects it with this error if that fails. It relies on generated methods.
type DecodeError struct {
	// Key is the key of the object.
	Key store.Key
	Err error
}

// Error names the object and the cause. It quotes no value of the object.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode packed object %q: %s", e.Key, discreet.Text(e.Err))
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }
