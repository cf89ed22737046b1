package overlay

import "github.com/kubereflector/kubereflector/store"

// follower makes an overlay a follower of its cache.
type follower[T Object] Overlay[T]

// Start implements [store.Follower].
func (f *follower[T]) Start(state *store.Snapshot[T]) {
	o := (*Overlay[T])(f)
	o.mu.Lock()
	defer o.mu.Unlock()
	if version := state.ResourceVersion(); version != "" {
		o.told.up(place{whole: true}, version)
	}
}

// Commit implements [store.Follower].
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	o := (*Overlay[T])(f)
	o.mu.Lock()
	defer o.mu.Unlock()
	where := place{whole: true}
	if commit.Partition != nil {
		where = place{scope: commit.Partition.Scope()}
	}
	if commit.ObservedVersion != "" {
		if o.told.up(where, commit.ObservedVersion) {
			o.clearLocked() // the pending writes belong to a history that is lost
		}
	}
	for i := range commit.Changes {
		change := &commit.Changes[i]
		// A single deletion by its key has no version. An object out of scope is not deleted.
		told := commit.ObservedVersion != "" && (change.FinalStateKnown || commit.Origin == store.List)
		if change.Type == store.Deletion && !told && !change.OutOfScope {
			o.told.bury(change.Key, change.Version.UID)
		}
		if w := o.writes[change.Key]; w != nil && supersedes(change, w.version) {
			o.forgetLocked(w)
		}
	}
	// Forget the writes that this partition has reached, and no others.
	for _, w := range o.writes {
		if where.contains(w.key, w.version.UID) && reached(commit.ObservedVersion, w.version.ResourceVersion) {
			o.forgetLocked(w)
		}
	}
	o.sweepLocked()
}

// supersedes reports whether a change is the written state, a later state, or the deletion of the
// object.
func supersedes[T any](change *store.Change[T], written store.Version) bool {
	if change.Type == store.Deletion && (change.Version.UID == "" || change.Version.UID == written.UID) {
		return true
	}
	return reached(change.Version.ResourceVersion, written.ResourceVersion)
}
