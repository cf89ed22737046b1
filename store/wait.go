package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// WaitFor waits until the partition contains every change up to a resource version, such as the
// version of an object that the caller just wrote to the server. Objects and bookmarks both advance
// the version, so WaitFor also returns if a selector excludes the object. Followers and the queues
// of subscribers may receive the change a moment later.
//
// WaitFor returns nil if the partition has reached the version, even if ctx has ended. It returns a
// [*WaitError] when ctx ends, when a Replace lowers the resource version, when Drop drops the
// partition ([ErrOutOfScope]), or when a version is no number. A rejected object holds back the
// version: give ctx a deadline, and the error names the object.
func (p *Partition[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	return p.wait(ctx, Key{}, resourceVersion, func() bool { return false })
}

// wait waits until the partition reaches a version, or until enough returns true. It calls enough
// again after each change of the key.
func (p *Partition[T]) wait(ctx context.Context, key Key, wanted string, enough func() bool) error {
	if _, err := resourceversion.CompareResourceVersion(wanted, wanted); err != nil {
		return p.waitError(key, wanted, err)
	}
	c := p.of
	c.mu.RLock()
	lowerings := p.lowerings
	c.mu.RUnlock()
	w := newWatch(wanted)
	defer c.watches.add(w, topic{ofKey, key}, topic{kind: ofVersion})()
	return p.waitError(key, wanted, w.wait(ctx, func() (bool, error) {
		if enough() {
			return true, nil
		}
		c.mu.RLock()
		defer c.mu.RUnlock()
		done, err := reached(p.resourceVersion, wanted)
		switch {
		case p.dropped:
			return false, p.scopeError(errDropped)
		case p == c.whole && len(c.partitions) > 0:
			return false, errSplit
		case !done && err == nil && p.lowerings != lowerings:
			return false, errVersionLowered
		}
		return done, err
	}))
}

// WaitFor is [Partition.WaitFor]. In a cache with partitions it waits for each partition, including
// partitions that are added meanwhile. It fails with [ErrOutOfScope] if one of them is dropped.
func (v *View[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	done := make(map[*Partition[T]]bool)
	for {
		next := slices.DeleteFunc(v.of.Partitions(), func(p *Partition[T]) bool { return done[p] })
		if len(next) == 0 && len(done) == 0 {
			next = append(next, v.of.whole)
		}
		if len(next) == 0 {
			return nil
		}
		switch err := next[0].WaitFor(ctx, resourceVersion); {
		case err == nil:
			done[next[0]] = true
		case !errors.Is(err, errSplit): // with it, the cache has partitions now
			return err
		}
	}
}

// WaitForObject waits until the cache has seen an object as the server returned it from a create or
// an update. Then the cache holds this state or a later one, or the object is deleted again, or a
// selector excludes it. In a cache with partitions it waits for the partition of the object.
//
// It returns the errors of WaitFor. It also returns a [*WaitError] at once for an object without a
// key ([ErrBadKey]), without a resource version, or in no partition ([ErrOutOfScope]). If the
// KeyFunc does not know the cluster, use [View.WaitForObjectIn].
func (v *View[T]) WaitForObject(ctx context.Context, object T) error {
	return v.WaitForObjectIn(ctx, "", object)
}

// WaitForObjectIn is [View.WaitForObject] for an object of the given cluster. It is for a KeyFunc that
// does not know the cluster.
func (v *View[T]) WaitForObjectIn(ctx context.Context, cluster string, object T) error {
	_, _, _, err := v.of.seen(ctx, cluster, object)
	return err
}

// WaitForDeletion waits until the cache no longer holds an object that was deleted on the server.
// Another object of the same name has another UID and does not count. Pass the last known state of
// the object: WaitForDeletion first waits until the cache has seen that state. It returns the
// errors of WaitForObject.
func (v *View[T]) WaitForDeletion(ctx context.Context, object T) error {
	p, key, version, err := v.of.seen(ctx, "", object)
	if err != nil {
		return err
	}
	w := newWatch("")
	defer v.of.watches.add(w, topic{ofKey, key})()
	return p.waitError(key, version.ResourceVersion, w.wait(ctx, func() (bool, error) {
		held, ok := v.of.held(key)
		return !ok || version.recreated(held), nil
	}))
}

// seen waits until the partition of an object, or the whole of a cache without partitions, has seen
// this state of the object. It returns the partition, the key of the object in the cache, and the
// version of the object. The cluster selects the partition; a cache without partitions has the key
// of the KeyFunc.
func (c *Cache[T]) seen(ctx context.Context, cluster string, object T) (p *Partition[T], key Key, version Version, err error) {
	key, version, err = c.identify(object)
	if err == nil && version.ResourceVersion == "" {
		err = errNoVersion
	}
	if err != nil {
		return nil, key, version, c.whole.waitError(key, version.ResourceVersion, err)
	}
	inCluster := key
	if key.Cluster == "" {
		inCluster.Cluster = cluster
	}
	for {
		if p = c.partOf(inCluster, version); p == nil {
			err = fmt.Errorf("%w: no partition contains it; name its cluster, if the KeyFunc does not know it", ErrOutOfScope)
			return nil, inCluster, version, c.whole.waitError(inCluster, version.ResourceVersion, err)
		}
		if p != c.whole {
			key = inCluster
		}
		err = p.wait(ctx, key, version.ResourceVersion, func() bool {
			held, ok := c.held(key)
			if !ok || held.UID != version.UID {
				return false
			}
			ok, err := reached(held.ResourceVersion, version.ResourceVersion)
			return ok && err == nil
		})
		if !errors.Is(err, errSplit) {
			return p, key, version, err
		}
	}
}

// partOf returns the partition of an object, the whole of a cache without partitions, or nil.
func (c *Cache[T]) partOf(key Key, version Version) *Partition[T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.partitions) == 0 {
		return c.whole
	}
	for _, p := range c.partitions {
		if p.scope.mayContain(key) && p.inShard(key, version) {
			return p
		}
	}
	return nil
}

// errVersionLowered means that the cache may never reach the version that a caller waits for: the
// server went back to an older state, as after a restore from a backup.
var errVersionLowered = errors.New("a list lowered the resource version: the server went back to an older state; read the object from the server again")

// errSplit ends waiting for the whole of a cache that has partitions. View.WaitFor and seen then
// wait for the partitions, so the error never leaves the package.
var errSplit = errors.New("cache has partitions")

var errNoVersion = errors.New("object has no resource version: pass it as the server returned it")

// WaitError says why waiting for a resource version ended too early.
type WaitError struct {
	// Wanted is the resource version that the caller waited for; empty if the object has none.
	Wanted string
	// Reached is the resource version of the cache when the wait ended.
	Reached string
	// Key is the key of the object that the caller waited for; zero if there was no object.
	Key Key
	// Rejected lists, in order, the first 16 keys that hold back the resource version. The cache
	// rejected an object under each key, and has not stored or deleted it since (store-S5). The
	// zero Key stands for objects without a key.
	Rejected []Key
	// Err is [ErrOutOfScope] or [ErrBadKey], or the cause of the context. Else its text says that a
	// list lowered the version, or that the version is empty or no number.
	Err error
}

// Error names the wanted and the reached version, the first rejected keys, and the cause.
func (e *WaitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "waiting for resource version %.64q", e.Wanted)
	if e.Key != (Key{}) {
		fmt.Fprintf(&b, " of %.253q", e.Key)
	}
	fmt.Fprintf(&b, ", reached %.64q", e.Reached)
	separator := " before the rejected "
	for _, key := range e.Rejected[:min(len(e.Rejected), maxListed)] {
		b.WriteString(separator + nameOfKey(key))
		separator = ", "
	}
	if len(e.Rejected) > maxListed {
		b.WriteString(" and others")
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }

// maxRejectedKeys bounds WaitError.Rejected.
const maxRejectedKeys = 16

// sortKeys is not inlined, so that packages with a cache do not compile the sort again.
//
//go:noinline
func sortKeys(keys []Key) { slices.SortFunc(keys, Key.Compare) }

// waitError returns the [WaitError] for an error, nil for nil.
func (p *Partition[T]) waitError(key Key, wanted string, err error) error {
	if err == nil {
		return nil
	}
	p.of.mu.RLock()
	reached, keys := p.resourceVersion, slices.Collect(maps.Keys(p.rejected))
	p.of.mu.RUnlock()
	sortKeys(keys)
	if len(keys) > maxRejectedKeys {
		keys = slices.Clone(keys[:maxRejectedKeys])
	}
	return &WaitError{Wanted: wanted, Reached: reached, Key: key, Rejected: keys, Err: err}
}
