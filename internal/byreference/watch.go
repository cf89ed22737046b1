package byreference

import (
	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
)

// Watch is what one watch has received.
type Watch struct {
	selector labels.Selector // of the owned objects; nil for the metadata
	synced   bool            // the first list has arrived
	progress
	// scopes are for the partitions of a cache. Each has a watch of its own, whose version says nothing of
	// the objects of the others.
	scopes map[store.Scope]*progress
}

// progress is how far a watch has come.
type progress struct {
	version string // every change up to it is received; empty if that is unknown
	// rejected has the objects that the cache rejected, with the version received before. That is
	// empty if it is unknown.
	rejected map[store.Key]string
}

// of returns the progress of the watch that has an object.
func (w *Watch) of(key store.Key) *progress {
	for _, scope := range [...]store.Scope{{Cluster: key.Cluster, Namespace: key.Namespace}, {Cluster: key.Cluster}} {
		if p, ok := w.scopes[scope]; ok {
			return p
		}
	}
	return &w.progress
}

// in returns the progress of the watch that made news.
func (w *Watch) in(n News) *progress {
	if !n.Partial {
		return &w.progress
	}
	if w.scopes == nil {
		w.scopes = map[store.Scope]*progress{}
	}
	p := w.scopes[n.Scope]
	if p == nil {
		p = &progress{}
		w.scopes[n.Scope] = p
	}
	return p
}

// lowest returns the version up to which every change is received; empty if that is unknown of any scope.
func (w *Watch) lowest() string {
	lowest, first := w.version, true
	for _, p := range w.scopes {
		if p.version == "" {
			return ""
		}
		if first || versions.Later(lowest, p.version) {
			lowest, first = p.version, false
		}
	}
	return lowest
}

// Synced reports whether the first list has arrived.
func (w *Watch) Synced() bool { return w.synced }

// News is what one commit of a watch's cache says about the watch.
type News struct {
	// Version is the version up to which the cache has received every change; empty if the commit
	// does not say.
	Version string
	// Partial is true for a commit of a partition of the cache, and Scope is then the partition's.
	Partial bool
	Scope   store.Scope
	// List is true if a list was committed.
	List bool
	// Synced is true if the cache had its first list.
	Synced bool
	// Back is true if an object is replaced by an earlier state, or deleted before it had its state:
	// the server was restored. A list shows so, and an event does if the cache rejected what the list
	// had.
	Back bool
	// Rejected are the objects of which the cache does not show the newest state. The zero key stands
	// for an object without a key, which may be any.
	Rejected []store.Key
}

// NewsOf returns the news of a commit of a cache.
func NewsOf[T any](commit *store.Commit[T], cache *store.View[T]) News {
	n := News{Version: commit.ObservedVersion, List: commit.Origin == store.List, Synced: commit.Synced}
	if p := commit.Partition; p != nil {
		n.Partial, n.Scope, n.Rejected = true, p.Scope(), p.Rejected()
	} else {
		n.Rejected = cache.Rejected()
	}
	for i := range commit.Changes {
		c := &commit.Changes[i]
		now := c.Version.ResourceVersion
		if c.Type == store.Deletion {
			now = n.Version
		}
		n.Back = n.Back || c.Type != store.Addition && versions.Later(store.VersionOf(c.Prior).ResourceVersion, now)
	}
	return n
}

// observe notes news, and reports whether the server was restored.
func (w *Watch) observe(n News) (restored bool) {
	p := w.in(n)
	if n.Version == "" && !n.List {
		n.Version = p.version
	}
	restored = n.Back || n.List && versions.Later(p.version, n.Version)
	var rejected map[store.Key]string
	for _, key := range n.Rejected {
		before, ok := p.rejected[key]
		if !ok {
			before = p.version
		}
		if restored {
			before = ""
		}
		if rejected == nil {
			rejected = make(map[store.Key]string, len(n.Rejected))
		}
		rejected[key] = before
	}
	p.version, p.rejected, w.synced = n.Version, rejected, n.Synced
	return restored
}

// received reports whether the cache shows every change of an object up to a version.
func (w *Watch) received(key store.Key, version string) bool {
	p := w.of(key)
	for _, key := range [...]store.Key{key, {}} {
		if before, ok := p.rejected[key]; ok && (before == "" || versions.Later(version, before)) {
			return false
		}
	}
	return w.synced && p.version != "" && !versions.Later(version, p.version)
}
