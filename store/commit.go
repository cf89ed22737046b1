package store

import "fmt"

// Origin says which kind of write made a change.
type Origin uint8

const (
	// Watch is the origin of a single change: an event of a watch, or a write of a program.
	Watch Origin = iota + 1
	// List is the origin of changes found by replacing everything.
	List
	// Resync is the origin of an unchanged object that is delivered again.
	Resync
)

// String returns "Watch", "List" or "Resync".
func (o Origin) String() string {
	switch o {
	case Watch:
		return "Watch"
	case List:
		return "List"
	case Resync:
		return "Resync"
	}
	return fmt.Sprintf("Origin(%d)", uint8(o))
}

// ChangeType says what happened to an object.
type ChangeType uint8

const (
	// Addition means that an object appeared under a key that held none.
	Addition ChangeType = iota + 1
	// Modification means that an object changed, or may have changed.
	Modification
	// Deletion means that an object is gone.
	Deletion
)

// String returns "Addition", "Modification" or "Deletion".
func (t ChangeType) String() string {
	switch t {
	case Addition:
		return "Addition"
	case Modification:
		return "Modification"
	case Deletion:
		return "Deletion"
	}
	return fmt.Sprintf("ChangeType(%d)", uint8(t))
}

// Change is what a commit did under one key.
type Change[T any] struct {
	Type ChangeType
	Key  Key

	// Prior is the object that was held before; the zero T for an Addition.
	Prior T

	// Object is the object that is held now. For a Deletion it is the last
	// state of the object that went: the final one if FinalStateKnown, else
	// the one that was held, which is Prior.
	Object T

	// Version is the version of Object, as far as it is known.
	Version Version

	// FinalStateKnown is true for a Deletion that was reported with the state
	// in which the object was deleted. It is false for one that was only found
	// missing: states between Object and the end may have gone unseen.
	FinalStateKnown bool

	// OutOfScope is true for a Deletion of an object that still exists on the server. A scope was
	// dropped, or the object belongs to another shard now.
	OutOfScope bool
}

// Commit is one step of a cache from one state to the next. Its changes become visible at once. It is
// valid only during the call of [Follower.Commit], because the next commit reuses its memory.
type Commit[T any] struct {
	Origin Origin

	// Initial is true for the first Replace of a cache or of a partition: its objects existed before.
	Initial bool

	// Synced is true if the state after the commit comes from a Replace and
	// what followed it. Of a cache with partitions, all must have had their
	// first Replace. Once true it stays so, unless a Drop takes out what no
	// partition held.
	Synced bool

	// ResourceVersion is the cache's resource version after the commit.
	ResourceVersion string

	// Partition is the partition that was written to; nil for a write to the cache itself. Its
	// resource version is the version after the commit.
	Partition *Partition[T]

	// ObservedVersion is the resource version up to which the partition, or the cache itself, has
	// received every change: the version of the list, or of the last change or bookmark. Unlike
	// ResourceVersion it passes rejected objects, and is set for a partition, too. It is empty before
	// the first Replace, and if the commit has no version.
	ObservedVersion string

	// Changes is what happened, in order: of a Replace, the objects that it
	// found missing come first. It is empty if only ResourceVersion or ObservedVersion moved.
	// Read-only.
	Changes []Change[T]
}

// Follower receives every commit of a cache, in order. Its methods run under the writer's lock, one at
// a time: they must be quick, and must not write to the cache or stop following. They may read the
// cache, which already shows the commit. If a follower panics, the commit is made and the other
// followers receive it; then the panic goes on to the writer.
type Follower[T any] interface {
	// Start receives the state before the first commit. It runs once, before Follow returns.
	Start(state *Snapshot[T])
	// Commit receives the next commit.
	Commit(commit *Commit[T])
}
