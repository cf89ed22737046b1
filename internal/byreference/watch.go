package byreference

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Watch is what one watch has received.
type Watch struct {
	selector labels.Selector // of the owned objects; nil for the metadata
	synced   bool            // the first list has arrived
	version  string          // every change up to it is received; empty if that is unknown
	// rejected has the objects that the cache rejected, with the version received before. That is
	// empty if it is unknown.
	rejected map[store.Key]string
}

// Synced reports whether the first list has arrived.
func (w *Watch) Synced() bool { return w.synced }

// News is what one commit of a watch's cache says about the watch.
type News struct {
	// Version is the version up to which the cache has received every change; empty if the commit
	// does not say.
	Version string
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

// NewsOf returns the news of a commit.
func NewsOf[T any](commit *store.Commit[T], rejected []store.Key) News {
	n := News{Version: commit.ObservedVersion, List: commit.Origin == store.List, Synced: commit.Synced, Rejected: rejected}
	for i := range commit.Changes {
		c := &commit.Changes[i]
		now := c.Version.ResourceVersion
		if c.Type == store.Deletion {
			now = n.Version
		}
		n.Back = n.Back || c.Type != store.Addition && newer(store.VersionOf(c.Prior).ResourceVersion, now)
	}
	return n
}

// observe notes news, and reports whether the server was restored.
func (w *Watch) observe(n News) (restored bool) {
	if n.Version == "" && !n.List {
		n.Version = w.version
	}
	restored = n.Back || n.List && newer(w.version, n.Version)
	var rejected map[store.Key]string
	for _, key := range n.Rejected {
		before, ok := w.rejected[key]
		if !ok {
			before = w.version
		}
		if restored {
			before = ""
		}
		if rejected == nil {
			rejected = make(map[store.Key]string, len(n.Rejected))
		}
		rejected[key] = before
	}
	w.version, w.rejected, w.synced = n.Version, rejected, n.Synced
	return restored
}

// received reports whether the cache shows every change of an object up to a version.
func (w *Watch) received(key store.Key, version string) bool {
	for _, key := range [...]store.Key{key, {}} {
		if before, ok := w.rejected[key]; ok && (before == "" || newer(version, before)) {
			return false
		}
	}
	return w.synced && w.version != "" && !newer(version, w.version)
}

// newer reports whether a resource version is known to be later than another.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
