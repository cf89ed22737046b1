package persist

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/store"
)

// versionOf returns what an object tells of its version; nothing if it panics.
func versionOf[T any](object T) (version store.Version) {
	defer func() {
		if recover() != nil {
			version = store.Version{}
		}
	}()
	if o, ok := any(object).(interface{ GetUID() types.UID }); ok {
		version.UID = o.GetUID()
	}
	if o, ok := any(object).(interface{ GetResourceVersion() string }); ok {
		version.ResourceVersion = o.GetResourceVersion()
	}
	return version
}
