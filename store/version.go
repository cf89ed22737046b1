package store

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Version identifies one state of one object: the UID identifies the object, and the resource
// version identifies the state. A Version with an empty UID or an empty resource version is
// unknown, and never equal to any other.
type Version struct {
	UID             types.UID
	ResourceVersion string
}

// Equal reports whether both versions are known and the same.
func (v Version) Equal(other Version) bool {
	return v.UID != "" && v.ResourceVersion != "" && v == other
}

// recreated reports whether other is known to belong to another object than v.
func (v Version) recreated(other Version) bool {
	return v.UID != "" && other.UID != "" && v.UID != other.UID
}

// VersionOf returns the version of an object with the methods GetUID and GetResourceVersion. Other
// objects have none. It panics if these methods panic, as they do for a nil pointer.
func VersionOf[T any](object T) (version Version) {
	if o, ok := any(object).(versioned); ok {
		version = Version{o.GetUID(), o.GetResourceVersion()}
	}
	return version
}

type versioned interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// knownVersion is VersionOf, but returns no version if the methods of the object panic.
func knownVersion[T any](object T) (version Version) {
	defer func() {
		if recover() != nil {
			version = Version{}
		}
	}()
	return VersionOf(object)
}

// lower reports whether a resource version is known to be less than another.
func lower(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && c < 0
}
