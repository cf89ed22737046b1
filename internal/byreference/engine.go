package byreference

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// ErrVersions means that the resource versions of a kind cannot be compared, so that nothing says
// which of two watches is behind the other.
var ErrVersions = errors.New("resource versions cannot be compared: cache the kind whole")

// Engine decides what a cache by reference shows. It is not safe for concurrent use.
type Engine struct {
	metadata *Watch
	owned    []*Watch
	// open has the keys of which the metadata has not passed the shown version, or of which a restore
	// lost the shown state. There are few, because the metadata soon catches up.
	open map[store.Key]shown
}

// shown is what is shown of an open key.
type shown struct {
	version store.Version
	lost    bool // it belongs to a history that the server has lost
}

// New returns an engine without owned selectors.
func New() *Engine { return &Engine{metadata: &Watch{}, open: map[store.Key]shown{}} }

// Metadata returns the watch of the metadata.
func (e *Engine) Metadata() *Watch { return e.metadata }

// Add adds an owned selector, and returns its watch.
func (e *Engine) Add(selector labels.Selector) *Watch {
	w := &Watch{selector: selector}
	e.owned = append(e.owned, w)
	return w
}

// Remove removes an owned selector. All keys must be decided again.
func (e *Engine) Remove(w *Watch) {
	e.owned = slices.DeleteFunc(e.owned, func(other *Watch) bool { return other == w })
}

// Again says what to decide after a commit, besides the keys that it changed.
type Again struct {
	// Keys are the keys whose shown versions the metadata has passed.
	Keys []store.Key
	// Restored is true if the server was restored. Then all keys are to be decided again, with
	// Facts.Lost.
	Restored bool
}

// Observe notes what a commit says about a watch. The error wraps [ErrVersions].
func (e *Engine) Observe(w *Watch, n News) (again Again, err error) {
	if n.List || n.Version != "" {
		if _, err := resourceversion.CompareResourceVersion(n.Version, n.Version); err != nil {
			return again, fmt.Errorf("%w: %q: %w", ErrVersions, n.Version, err)
		}
	}
	again.Restored = w.observe(n)
	if w == e.metadata {
		for key, s := range e.open {
			if w.received(key, s.version.ResourceVersion) {
				again.Keys = append(again.Keys, key)
			}
		}
	}
	return again, nil
}

// Facts are what is known of one key. A version is zero if there is no object.
type Facts struct {
	Shown    store.Version
	Lost     bool // a restore of the server was noticed just now: see Again.Restored
	Metadata store.Version
	Labels   labels.Set    // of the metadata, before any transform
	Owned    store.Version // the newest state that an owned watch has: see Newest
}

// Action is what to do with the object that is shown under a key.
type Action uint8

const (
	// Keep means that what is shown stays.
	Keep Action = iota
	// ShowOwned means to show the state of the owned watch. If the UID of what is shown differs, that
	// is deleted first.
	ShowOwned
	// ShowMetadata means to show the metadata. If the UID of what is shown differs, that is deleted
	// first.
	ShowMetadata
	// Remove means that the object is deleted.
	Remove
)

// String returns the name of the action.
func (a Action) String() string { return [...]string{"Keep", "ShowOwned", "ShowMetadata", "Remove"}[a] }

// Newest returns whether a version is to be preferred to the newest one so far, in a loop over the
// owned watches.
func Newest(version, soFar store.Version) bool {
	return !has(soFar) || versions.Later(version.ResourceVersion, soFar.ResourceVersion)
}

// Decide returns what to show under a key. The caller shows it before the next call for the key.
func (e *Engine) Decide(key store.Key, f Facts) Action {
	f.Lost = f.Lost || e.open[key].lost
	action := e.decide(key, f)
	now := shown{f.Shown, f.Lost}
	switch action {
	case ShowOwned:
		now = shown{version: f.Owned}
	case ShowMetadata:
		now = shown{version: f.Metadata}
	case Remove:
		now = shown{}
	}
	if has(now.version) && (now.lost || !e.passed(key, f.Metadata, now.version)) {
		e.open[key] = now
	} else {
		delete(e.open, key)
	}
	return action
}

// Shown returns the shown version of a key that the metadata has not passed; zero if there is none. A
// caller that keeps no record of what it has shown passes it as Facts.Shown: an earlier state than the
// metadata have is never shown in any case.
func (e *Engine) Shown(key store.Key) store.Version { return e.open[key].version }

// Open returns the number of keys whose shown version the metadata has not passed, or that a restore
// lost.
func (e *Engine) Open() int { return len(e.open) }

// Raise notes that a version was shown, if that is later than what was shown before and the metadata
// has not passed it.
func (e *Engine) Raise(key store.Key, metadata, version store.Version) {
	if later(version, e.open[key].version) && !e.passed(key, metadata, version) {
		e.open[key] = shown{version: version}
	}
}

// Forget forgets what was shown of a key.
func (e *Engine) Forget(key store.Key) { delete(e.open, key) }

// KeepScopes forgets the scopes of the metadata that its cache no longer has, and returns them. It also
// forgets the open keys in them, because no commit says any more how far these have come.
func (e *Engine) KeepScopes(live []store.Scope) (dropped []store.Scope) {
	for scope := range e.metadata.scopes {
		if !slices.Contains(live, scope) {
			delete(e.metadata.scopes, scope)
			dropped = append(dropped, scope)
		}
	}
	if dropped == nil {
		return nil
	}
	for key := range e.open {
		if slices.ContainsFunc(dropped, func(s store.Scope) bool { return s.Contains(key) }) {
			delete(e.open, key)
		}
	}
	return dropped
}

// ForgetAll forgets what was shown, after a restore.
func (e *Engine) ForgetAll() { clear(e.open) }

func (e *Engine) decide(key store.Key, f Facts) Action {
	shown, metadata, owned := f.Shown, f.Metadata, f.Owned
	if e.passed(key, metadata, owned) && (later(owned, metadata) || owned.UID != metadata.UID) {
		owned = store.Version{} // the owned watch is behind
	}
	action, next := Remove, store.Version{}
	switch {
	case has(owned) && !later(metadata, owned):
		action, next = ShowOwned, owned
	case has(metadata) && !e.owns(f.Labels):
		action, next = ShowMetadata, metadata
	case has(metadata) && has(owned):
		action, next = ShowOwned, owned // until the data of the newest state arrive
	case has(metadata):
		return Keep
	}
	passed := f.Lost || e.passed(key, metadata, shown)
	switch {
	case !has(shown):
		if action == Remove {
			return Keep
		}
		return action
	case has(next) && next.UID == shown.UID:
		lost := passed && later(shown, metadata) // the metadata would have it
		if later(shown, next) && !lost {
			return Keep
		}
		return action
	case metadata.UID == shown.UID && has(metadata), !passed:
		return Keep
	}
	return action
}

// passed reports whether the metadata has received every change of an object up to a version.
func (e *Engine) passed(key store.Key, metadata, version store.Version) bool {
	return e.metadata.received(key, version.ResourceVersion) || has(metadata) && !later(version, metadata)
}

// owns reports whether a selector with a list matches labels.
func (e *Engine) owns(of labels.Set) bool {
	return slices.ContainsFunc(e.owned, func(w *Watch) bool { return w.synced && w.selector.Matches(of) })
}

// awaited reports whether a selector without a list matches labels.
func (e *Engine) awaited(of labels.Set) bool {
	return slices.ContainsFunc(e.owned, func(w *Watch) bool { return !w.synced && w.selector.Matches(of) })
}

// Reached reports whether a wait for a version of an object ends.
func (e *Engine) Reached(key store.Key, version string, f Facts) bool {
	if !has(f.Shown) {
		return !has(f.Metadata) && e.metadata.received(key, version)
	}
	return !versions.Later(version, f.Shown.ResourceVersion) && !e.open[key].lost && (f.Owned == f.Shown || !e.awaited(f.Labels))
}

// Version returns the version up to which all watches with a list have received every change; empty if that
// is unknown.
func (e *Engine) Version() string {
	lowest := e.metadata.lowest()
	for _, w := range e.owned {
		if own := w.lowest(); w.synced && (own == "" || versions.Later(lowest, own)) {
			lowest = own
		}
	}
	return lowest
}

// later reports whether there is a version that is later than another one, or than none.
func later(version, than store.Version) bool {
	return has(version) && (!has(than) || versions.Later(version.ResourceVersion, than.ResourceVersion))
}

func has(version store.Version) bool { return version.ResourceVersion != "" }
