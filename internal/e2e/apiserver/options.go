package apiserver

// Options are what can be chosen for a [Server]. The zero value is a server with envtest's defaults.
type Options struct {
	// APIServerFlags are flags of kube-apiserver without their dashes, each with its values. A flag replaces the default that it may have, with all its
	// values; for a flag that is given as a list, such as feature-gates, one value may be the whole list.
	APIServerFlags map[string][]string
}
