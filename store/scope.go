package store

// Scope is a part of what a cache holds: one namespace of one cluster, or all of
// a cluster if Namespace is empty. The empty Cluster is the one whose keys have
// no cluster. Of that it is one shard, or everything if Shard is zero.
type Scope struct {
	Cluster   string
	Namespace string
	Shard     Shard
}

// String returns "cluster|namespace" and the shard, without what is empty.
func (s Scope) String() string {
	place := "namespace " + s.Cluster + "|" + s.Namespace
	switch {
	case s.Cluster == "" && s.Namespace == "":
		place = "all namespaces"
	case s.Cluster == "":
		place = "namespace " + s.Namespace
	case s.Namespace == "":
		place = "cluster " + s.Cluster
	}
	if s.Shard.whole() {
		return place
	}
	return place + ", " + s.Shard.String()
}

// contains reports whether an object under a key may be in the scope, and is if the scope
// has no shard.
func (s Scope) contains(key Key) bool {
	return key.Cluster == s.Cluster && (s.Namespace == "" || key.Namespace == s.Namespace)
}

// covers reports whether everything in another scope is in this one.
func (s Scope) covers(other Scope) bool {
	return s.Cluster == other.Cluster && (s.Namespace == "" || s.Namespace == other.Namespace) && s.Shard.covers(other.Shard)
}

// overlaps reports whether something may be in both scopes.
func (s Scope) overlaps(other Scope) bool {
	return s.Cluster == other.Cluster && (s.Namespace == other.Namespace || s.Namespace == "" || other.Namespace == "") &&
		s.Shard.overlaps(other.Shard)
}
