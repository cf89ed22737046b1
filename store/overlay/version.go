package overlay

import "k8s.io/apimachinery/pkg/util/resourceversion"

// reached reports whether a resource version is known to be at least the wanted one.
func reached(version, wanted string) bool {
	order, err := resourceversion.CompareResourceVersion(version, wanted)
	return err == nil && order >= 0
}
