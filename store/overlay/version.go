package overlay

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

func versionOf[T Object](object T) store.Version {
	return store.Version{UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}
}

// reached reports whether a resource version is known to be another or a later one.
func reached(version, wanted string) bool {
	order, err := resourceversion.CompareResourceVersion(version, wanted)
	return err == nil && order >= 0
}
