package stream

import (
	"strings"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identify returns the key and version of an object, even if its other fields are unreadable.
func identify(format wire.Format, data []byte) (store.Key, store.Version, bool) {
	if id, ok := wire.Peek(format, data); ok {
		return store.Key{Namespace: string(id.Namespace), Name: string(id.Name)},
			store.Version{UID: types.UID(id.UID), ResourceVersion: string(id.ResourceVersion)}, true
	}
	var m metav1.PartialObjectMetadata
	if err := wire.Unmarshal(format, data, &m); err != nil {
		return store.Key{}, store.Version{}, false
	}
	return store.Key{Namespace: m.Namespace, Name: m.Name}, store.Version{UID: m.UID, ResourceVersion: m.ResourceVersion}, true
}

// rejectionOf returns the rejection for an object that cannot be decoded. It returns false if even
// the object's metadata is unreadable.
func rejectionOf(format wire.Format, data []byte, err error) (store.Rejection, bool) {
	key, version, ok := identify(format, data)
	return store.Rejection{Key: key, Version: version, Err: err}, ok
}

// identities reads the identities of undecoded objects.
type identities struct{ names arena }

func (i *identities) key(id wire.Identity) store.Key {
	return store.Key{Namespace: i.names.text(id.Namespace), Name: i.names.text(id.Name)}
}

func (i *identities) version(id wire.Identity) store.Version {
	return store.Version{UID: types.UID(i.names.text(id.UID)), ResourceVersion: i.names.text(id.ResourceVersion)}
}

// look returns the key, the version and the outline of an undecoded object. It returns false if a
// quick look at the bytes cannot determine them.
func (i *identities) look(format wire.Format, data []byte, withoutManagedFields bool) (store.Key, store.Version, wire.Outline, bool) {
	o, ok := wire.Look(format, data, withoutManagedFields)
	if !ok {
		return store.Key{}, store.Version{}, o, false
	}
	return i.key(o.Identity), i.version(o.Identity), o, true
}

// arena converts bytes to strings, and stores many strings in one piece of memory.
type arena struct{ b *strings.Builder }

func (a *arena) text(b []byte) string {
	const size = 16 << 10
	if a.b == nil || a.b.Cap()-a.b.Len() < len(b) {
		a.b = new(strings.Builder)
		a.b.Grow(max(size, len(b)))
	}
	start := a.b.Len()
	a.b.Write(b) // within the capacity, so earlier strings keep their memory
	return a.b.String()[start:]
}
