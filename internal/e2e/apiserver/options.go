package apiserver

// Options configure a [Server]. The zero value is a server with envtest's defaults.
type Options struct {
	// APIServerFlags are flags of kube-apiserver without their dashes, each with its values. A flag
	// replaces all values of its default. For a list flag such as feature-gates, one value may hold
	// the whole list.
	APIServerFlags map[string][]string
}
