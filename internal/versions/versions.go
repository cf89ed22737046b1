package versions

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Later reports whether a resource version is known to be later than another. Versions that cannot
// be compared are not: those of some servers are no numbers.
func Later(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
