package versions

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Of returns the resource version of an object, or an empty string if it has none.
func Of(object any) string {
	if of, ok := object.(interface{ GetResourceVersion() string }); ok {
		return of.GetResourceVersion()
	}
	return ""
}

// Later reports whether a resource version is known to be later than another. Versions that cannot
// be compared are not: an empty one is unknown, and those of some servers are no numbers.
func Later(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
