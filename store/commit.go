package store

import "fmt"

// Origin says where the news of a change comes from.
type Origin uint8

const (
	// Watch is the origin of a single change: what a watch reports, or what a
	// program writes by itself.
	Watch Origin = iota + 1
	// List is the origin of changes found by replacing everything.
	List
	// Resync is the origin of an object handed out once more although it did
	// not change. It never stands for news from the API server.
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

	// Version is what is known of the version of Object.
	Version Version

	// FinalStateKnown is true for a Deletion that was reported with the state
	// in which the object was deleted. It is false for one that was only found
	// missing: states between Object and the end may have gone unseen.
	FinalStateKnown bool

	// OutOfScope is true for a Deletion of what went on to exist: it left what the cache is for,
	// because a scope was dropped or the object belongs to another shard now. What becomes
	// of it is somebody else's business.
	OutOfScope bool
}

// Commit is one step of a cache from one state to the next. Its changes become
// visible at once. It is valid only during the call that hands it over: its
// memory serves for the next one.
type Commit[T any] struct {
	Origin Origin

	// Initial is true for the first Replace of a cache, or of a partition of
	// one: its objects existed before anybody looked.
	Initial bool

	// Synced is true if the state after the commit comes from a Replace and
	// what followed it. Of a cache with partitions, all must have had their
	// first Replace. Once true it stays so, unless a Drop takes out what no
	// partition held.
	Synced bool

	// ResourceVersion is the cache's resource version after the commit.
	ResourceVersion string

	// Partition is what was written to; nil if that was the cache itself. Its
	// resource version is that after the commit.
	Partition *Partition[T]

	// ObservedVersion is the resource version up to which everything in what was written to was told
	// by now: that of the list, or of the last single change or bookmark. Unlike
	// ResourceVersion it does not stay before an object that is lacking, and is there
	// for a partition, too. It is empty before the first Replace, and if the commit
	// brought no version.
	ObservedVersion string

	// Changes is what happened, in order: of a Replace, the objects that it
	// found missing come first. It is empty if only ResourceVersion or ObservedVersion moved.
	// Read-only.
	Changes []Change[T]
}

// Follower is told of every commit of a cache, in order. Its methods are called
// under the writer's lock, one at a time: they must be quick, must not write to
// the cache and must not stop following; they may read from the cache, which
// already shows the commit. One that panics keeps the others from nothing: the
// commit is made and they are told of it, then the panic goes on to whoever wrote.
type Follower[T any] interface {
	// Start hands over the state that the first Commit will change. It is
	// called once, before Follow returns.
	Start(state *Snapshot[T])
	// Commit hands over the next step.
	Commit(commit *Commit[T])
}
