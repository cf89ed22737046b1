package store

import "fmt"

// Origin says which kind of write made a change.
type Origin uint8

const (
	// Watch is the origin of changes that events of a watch, or writes of a program, made.
	Watch Origin = iota + 1
	// List is the origin of changes that a Replace found.
	List
	// Resync is the origin of an unchanged object that an event-queue collection delivers again.
	Resync
)

// String returns "Watch", "List" or "Resync".
func (o Origin) String() string { return nameOf("Origin", o, "", "Watch", "List", "Resync") }

// ChangeType says what happened to an object.
type ChangeType uint8

const (
	// Addition means that an object appeared under a key without an object.
	Addition ChangeType = iota + 1
	// Modification means that an object has another resource version, or another content under the
	// same one. So a predicate that compares versions misses changes.
	Modification
	// Deletion means that the object no longer exists, no longer matches the selector, or is out of scope.
	Deletion
)

// String returns "Addition", "Modification" or "Deletion".
func (t ChangeType) String() string {
	return nameOf("ChangeType", t, "", "Addition", "Modification", "Deletion")
}

// nameOf returns the name of a constant, by its value.
func nameOf[C ~uint8](of string, c C, names ...string) string {
	if int(c) < len(names) && names[c] != "" {
		return names[c]
	}
	return fmt.Sprintf("%s(%d)", of, uint8(c))
}

// Change is one change of the object under a key. A commit may have several under one key, in order: a
// batch of a watch makes each of its writes, and a new UID is a Deletion and an Addition.
type Change[T any] struct {
	Type ChangeType
	Key  Key

	// Prior is the object before the change; the zero T for an Addition. If the commit has several
	// changes under the key, readers may never have seen it.
	Prior T

	// Object is the object after the change. For a Deletion it is the final state if
	// FinalStateKnown, else the object that the cache held, which is Prior.
	Object T

	// Version is the known version of Object.
	Version Version

	// FinalStateKnown is true for a Deletion that the server reported with the final state of the
	// object, or with its last state that matched the selector. It is false if a list lacked the object,
	// or if the writer knew only its key. The cache may then have missed states between Object and the
	// deletion.
	FinalStateKnown bool

	// OutOfScope is true for a Deletion because the object's scope was dropped. Without it, the object may
	// exist as well: the server reports one that ceases to match the selector as deleted.
	OutOfScope bool
}

// Commit is one step of a cache from one state to the next. Its changes become visible at once. It is
// valid only during the call of [Follower.Commit], because the next commit reuses its memory.
type Commit[T any] struct {
	Origin Origin

	// Initial is true for the first Replace of a cache or of a partition: its objects existed
	// before the cache looked.
	Initial bool

	// Synced is true if the cache had its first Replace. In a cache with partitions, all must have
	// had their first Replace. Once true it stays true, unless a Drop changes a cache without
	// partitions.
	Synced bool

	// ResourceVersion is the cache's resource version after the commit.
	ResourceVersion string

	// Partition is the partition that the write went to; nil for a write to the cache itself. Its
	// resource version is the version after the commit.
	Partition *Partition[T]

	// ObservedVersion is the resource version up to which the partition, or the cache itself, has
	// received every change: the version of the list, or of the last change or bookmark. Unlike
	// ResourceVersion it passes rejected objects, and it is also set for a partition. It is empty
	// before the first Replace, and if the commit has no version.
	ObservedVersion string

	// Changes is the list of changes, in order. In a Replace, the deletions of missing objects come
	// first. It may be empty: if only ResourceVersion or ObservedVersion moved, or if a Replace or a Drop
	// found nothing to change. Read-only.
	Changes []Change[T]

	// Shared is nil at the beginning of a commit. A follower may store a value there, so that later
	// followers of the same kind need not derive it from Changes again. It is an any, because this
	// package does not know the types of followers.
	Shared any
}

// Follower receives every commit of a cache, in order. Its methods run under the writer's lock, one
// at a time. They must be quick, and must not call what takes that lock, as the package documentation has it:
// neither write to the cache, nor follow it or stop following. They may read the cache, which already shows the
// commit. If a follower panics, the cache still makes the commit
// and calls the other followers; then the panic goes on to the writer.
type Follower[T any] interface {
	// Start receives the state before the first commit. It runs once, before Follow returns.
	Start(state *Snapshot[T])
	// Commit receives the next commit.
	Commit(commit *Commit[T])
}

// registration gives each call of Follow an identity: followers need not be comparable, and a
// caller may register one twice.
type registration[T any] struct{ follower Follower[T] }

// appendChanges appends the changes of a mutation for followers.
func (m *mutation[T]) appendChanges(all []Change[T]) []Change[T] {
	if m.before == nil {
		if m.after == nil {
			return all
		}
		return append(all, m.after.addition())
	}
	held := m.before.known()
	if m.after == nil {
		deletion := m.before.deletion(held)
		deletion.OutOfScope = m.outOfScope
		// The final state of a recreated object is no state of this object.
		if m.final != nil {
			if final := m.final.known(); !held.recreated(final) {
				deletion.Object, deletion.FinalStateKnown = m.final.object, true
				deletion.Version = final
			}
		}
		return append(all, deletion)
	}
	addition := m.after.addition()
	if held.recreated(addition.Version) {
		// The cache did not see the deletion in between. Followers receive both changes, so that
		// they do not take the new object for a later state of the old one
		// (kubernetes/kubernetes#133565).
		return append(all, m.before.deletion(held), addition)
	}
	if m.repeated {
		return all
	}
	addition.Type, addition.Prior = Modification, m.before.object
	return append(all, addition)
}

func (e *entry[T]) addition() Change[T] {
	return Change[T]{Type: Addition, Key: e.key(), Object: e.object, Version: e.known()}
}

func (e *entry[T]) deletion(version Version) Change[T] {
	return Change[T]{Type: Deletion, Key: e.key(), Prior: e.object, Object: e.object, Version: version}
}
