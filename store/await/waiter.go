package await

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// waiter waits until a condition is true. It follows its cache meanwhile, so it sees each commit, under
// the lock of the cache's writer, and needs no lock of its own. Each wait is a follower by itself: a
// commit calls all of them, and nearly all return after a few comparisons.
type waiter[T any] struct {
	cache Cache[T]
	// key is the key of the object in the cache; zero if the caller waits for a version only.
	// clusterKey is the key with the cluster of the caller.
	key, clusterKey store.Key
	version         store.Version // to wait for

	// parts has the partitions that the waiter has seen; nil stands for a cache without partitions.
	parts map[*store.Partition[T]]*part
	// behind is the partition that an error describes: the first one that the last check found
	// behind, or a dropped one.
	behind *store.Partition[T]
	check  func() (bool, error) // the condition; an error ends the wait as well
	over   bool
	ended  chan error // has the result of check
}

// part is the progress of a partition.
type part struct {
	version string // after the last commit that the waiter has seen
	reached bool   // at some time
	lowered bool   // by a list, before it reached
}

func newWaiter[T any](cache Cache[T], key store.Key, version store.Version) *waiter[T] {
	return &waiter[T]{
		cache: cache, key: key, version: version,
		parts: make(map[*store.Partition[T]]*part), ended: make(chan error, 1),
	}
}

// wait calls check at once and after the commits that may change its result, until it returns true or
// an error.
func (w *waiter[T]) wait(ctx context.Context, check func() (bool, error)) error {
	// Check before Follow: a caller that holds the writer's lock, such as a follower, would deadlock in
	// Follow, but gets an answer if the cache already shows what it waits for.
	if done, err := check(); done || err != nil {
		return w.failed(err)
	}
	if ctx.Err() != nil {
		return w.failed(context.Cause(ctx))
	}
	w.check = check
	stop := w.cache.Follow(w)
	select {
	case err := <-w.ended:
		stop()
		return w.failed(err)
	case <-ctx.Done():
	}
	stop()
	select {
	case err := <-w.ended: // the condition became true as ctx ended
		return w.failed(err)
	default:
		return w.failed(context.Cause(ctx))
	}
}

// Start implements [store.Follower]. Commits may have come since the first check.
func (w *waiter[T]) Start(*store.Snapshot[T]) {
	for p, one := range w.parts {
		one.lowered = versions.Later(one.version, w.versionOf(p))
	}
	w.checkAgain()
}

// Commit implements [store.Follower].
func (w *waiter[T]) Commit(commit *store.Commit[T]) {
	if w.over {
		return
	}
	p, version := commit.Partition, commit.ResourceVersion
	if p != nil {
		version = p.ResourceVersion()
	}
	one := w.parts[p]
	if one != nil && commit.Origin == store.List {
		one.lowered = one.lowered || versions.Later(one.version, commit.ObservedVersion)
	}
	if w.concerns(commit, one, version) {
		w.checkAgain()
	}
	if one != nil {
		one.version = version
	}
}

// concerns reports whether a commit may change the result of check. one is the part of the commit's
// partition, which is at a version now. It is nil for a partition that the waiter does not know. Such a
// partition has no version until its first list, and a list concerns every waiter.
func (w *waiter[T]) concerns(commit *store.Commit[T], one *part, version string) bool {
	if commit.Origin == store.List || commit.Partition == nil && commit.ObservedVersion == "" { // a drop, or a deletion by key
		return true
	}
	for i := range commit.Changes {
		if key := commit.Changes[i].Key; key == w.key || key == w.clusterKey {
			return true
		}
	}
	return one != nil && !one.reached && version != "" && !versions.Later(w.version.ResourceVersion, version)
}

// checkAgain calls check, under the lock of the writer. An end counts once: there is no receiver for a
// second one, and sending it would hold the writer.
func (w *waiter[T]) checkAgain() {
	if done, err := w.check(); done || err != nil {
		w.over = true
		w.ended <- err
	}
}

// errVersionLowered means that the cache may never reach the version: the server went back to an older
// state, as after a restore from a backup.
var errVersionLowered = errors.New("a list lowered the resource version: the server went back to an older state; read the object from the server again")

// checkDropped returns an error if a partition that the waiter waits for is no longer one of the cache.
func (w *waiter[T]) checkDropped(now []*store.Partition[T]) error {
	for p, one := range w.parts {
		if p != nil && !one.reached && !slices.Contains(now, p) {
			w.behind = p
			return fmt.Errorf("%w: the partition of %v was dropped", store.ErrOutOfScope, p.Scope())
		}
	}
	return nil
}

// reachedByAll reports whether each partition has reached the version.
func (w *waiter[T]) reachedByAll() (bool, error) {
	now := w.cache.Partitions()
	if err := w.checkDropped(now); err != nil {
		return false, err
	}
	if len(now) == 0 && (len(w.parts) == 0 || w.parts[nil] != nil) {
		now = append(now, nil)
	}
	all := true
	for _, p := range now { // visit all: from now on, the wait sees a drop or a lowering of each
		done, err := w.reachedBy(p)
		if err != nil {
			w.behind = p
			return false, err
		}
		if !done && all {
			w.behind, all = p, false
		}
	}
	return all, nil
}

// reachedBy reports whether a partition, or for nil the cache, has reached the version.
func (w *waiter[T]) reachedBy(p *store.Partition[T]) (bool, error) {
	one := w.parts[p]
	if one == nil {
		one = &part{}
		w.parts[p] = one
	}
	one.version = w.versionOf(p)
	done, err := reached(one.version, w.version.ResourceVersion)
	if !done && err == nil && !one.reached && one.lowered {
		err = errVersionLowered
	}
	one.reached = one.reached || done
	return one.reached, err
}

// versionOf returns the version of a partition, or for nil of the cache.
func (w *waiter[T]) versionOf(p *store.Partition[T]) string {
	if p != nil {
		return p.ResourceVersion()
	}
	return w.cache.ResourceVersion()
}

// shown reports whether the cache has seen the state of an object.
func (w *waiter[T]) shown() (bool, error) {
	p, err := w.partition()
	if err != nil {
		return false, err
	}
	if held, ok := w.cache.Get(w.key); ok {
		if held := store.VersionOf(held); held.UID == w.version.UID {
			if done, err := reached(held.ResourceVersion, w.version.ResourceVersion); done && err == nil {
				return true, nil
			}
		}
	}
	w.behind = p
	return w.reachedBy(p)
}

// partition returns the partition of the object; nil in a cache without partitions.
func (w *waiter[T]) partition() (*store.Partition[T], error) {
	now := w.cache.Partitions()
	if err := w.checkDropped(now); err != nil || len(now) == 0 {
		return nil, err
	}
	for _, p := range now {
		if p.Scope().Contains(w.clusterKey) {
			w.key = w.clusterKey
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: no partition contains it; name its cluster, if the KeyFunc does not know it", store.ErrOutOfScope)
}

// failed returns the [*Error] for an error, nil for nil.
func (w *waiter[T]) failed(err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Wanted: w.version.ResourceVersion, Key: w.key, Err: err}
	e.Reached, e.Rejected = w.cache.ResourceVersion(), w.cache.Rejected()
	if p := w.behind; p != nil {
		e.Reached, e.Rejected = p.ResourceVersion(), p.Rejected()
	}
	e.Rejected = e.Rejected[:min(len(e.Rejected), maxRejected)]
	return e
}

// reached reports whether one resource version is at least another. An unknown version reaches
// nothing.
func reached(version, wanted string) (bool, error) {
	if version == "" {
		_, err := resourceversion.CompareResourceVersion(wanted, wanted)
		return false, err
	}
	c, err := resourceversion.CompareResourceVersion(version, wanted)
	return c >= 0 && err == nil, err
}
