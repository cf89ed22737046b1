package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// WaitFor waits until the partition has seen everything up to a resource version,
// such as that of an object which was just written to the server: then it is
// visible, deletions included. Objects and bookmarks both count, so that with a
// selector it does not matter whether the object is in it. Followers, and with them
// the queues of subscribers, may be told of it a moment later.
//
// It returns nil, also if ctx has ended already and the resource version is
// reached, or a [*WaitError]: when ctx ends, when a Replace lowers the resource
// version ([ErrVersionLowered]), when the partition is dropped ([ErrOutOfScope]), or
// when one of the versions is no number. An object that was rejected holds up
// everybody who waits for what came after it: give ctx a deadline, and the error
// names it.
func (p *Partition[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	return p.wait(ctx, Key{}, resourceVersion, nil)
}

// wait waits for a version, or for an earlier end: until enough says so, which
// is asked again whenever the object of the key changes.
func (p *Partition[T]) wait(ctx context.Context, key Key, wanted string, enough func() bool) error {
	failed := func(err error) error { return p.waitError(key, wanted, err) }
	w, err := p.await(wanted)
	if err != nil {
		return failed(err)
	}
	defer p.forget(w)
	var changed chan struct{} // nil blocks for ever
	if enough != nil {
		watch := p.of.watches.add(key)
		defer p.of.watches.remove(key, watch)
		changed = watch.changed
	}
	for {
		if enough != nil && enough() {
			return nil
		}
		select {
		case <-w.done:
			if w.err != nil {
				return failed(w.err)
			}
			return nil
		case <-changed:
		case <-ctx.Done():
			select {
			case <-w.done: // of two reasons to return, this one says more
			default:
				return failed(context.Cause(ctx))
			}
		}
	}
}

// WaitForObject waits until the cache shows an object as the server returned it
// from a create or an update, or a later state: then it is held at that version
// or a newer one, or is gone again, or is not selected.
//
// It returns what WaitFor returns, and a [*WaitError] at once for an object that
// cannot be waited for: one without a key ([ErrBadKey]), without a resource version,
// or outside of the scope ([ErrOutOfScope]).
func (p *Partition[T]) WaitForObject(ctx context.Context, object T) error {
	key, version, err := p.known(object)
	if err != nil {
		return err
	}
	return p.wait(ctx, key, version.ResourceVersion, func() bool {
		held, ok := p.of.held(key)
		if !ok || held.UID != version.UID {
			return false
		}
		ok, err := reached(held.ResourceVersion, version.ResourceVersion)
		return ok && err == nil
	})
}

// WaitForDeletion waits until the cache does not hold an object any more that was
// just deleted on the server: it is told apart by its UID from another one of the
// same name. Pass the object as it was last seen; the cache is first waited for to
// have seen as much. It returns what WaitForObject returns.
func (p *Partition[T]) WaitForDeletion(ctx context.Context, object T) error {
	key, version, err := p.known(object)
	if err != nil {
		return err
	}
	if err := p.WaitForObject(ctx, object); err != nil {
		return err
	}
	watch := p.of.watches.add(key)
	defer p.of.watches.remove(key, watch)
	for {
		if held, ok := p.of.held(key); !ok || version.recreated(held) {
			return nil
		}
		select {
		case <-watch.changed:
		case <-ctx.Done():
			return p.waitError(key, version.ResourceVersion, context.Cause(ctx))
		}
	}
}

// known returns the key and the version of an object to wait for.
func (p *Partition[T]) known(object T) (Key, Version, error) {
	key, version, err := p.identify(object)
	if err == nil && version.ResourceVersion == "" {
		err = errNoVersion
	}
	if err != nil {
		err = p.waitError(key, version.ResourceVersion, err)
	}
	return key, version, err
}

// WaitFor is [Partition.WaitFor]. In a cache with partitions it waits for each of
// them, and for those that are made meanwhile; it fails with [ErrOutOfScope] if one
// that it waits for is dropped.
func (v *View[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	var done []*Partition[T]
	for {
		next := v.of.nextPart(done)
		if next == nil {
			return nil
		}
		err := next.WaitFor(ctx, resourceVersion)
		switch {
		case errors.Is(err, errSplit):
			continue // there are partitions now
		case err != nil:
			return err
		case next == v.of.whole:
			return nil
		}
		done = append(done, next)
	}
}

// nextPart returns something to wait for that is not done: a partition, or the
// whole of a cache without any; nil if there is nothing.
func (c *Cache[T]) nextPart(done []*Partition[T]) *Partition[T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, p := range c.partitions {
		if !slices.Contains(done, p) {
			return p
		}
	}
	if len(done) == 0 {
		return c.whole
	}
	return nil
}

// WaitForObject is [Partition.WaitForObject] of the partition that the object is
// in. In a cache with partitions, an object that is in none of them fails with
// [ErrOutOfScope]: so does every one whose cluster the KeyFunc does not know. Wait
// for it by [View.WaitForObjectIn], or through its partition, which does.
func (v *View[T]) WaitForObject(ctx context.Context, object T) error {
	return v.WaitForObjectIn(ctx, "", object)
}

// WaitForObjectIn is [View.WaitForObject] for an object of a cluster, if the KeyFunc
// does not say which one it is of.
func (v *View[T]) WaitForObjectIn(ctx context.Context, cluster string, object T) error {
	return v.of.waitIn(cluster, object, func(p *Partition[T]) error { return p.WaitForObject(ctx, object) })
}

// WaitForDeletion is [Partition.WaitForDeletion] of the partition that the object
// is in, and fails as [View.WaitForObject] does where there is none.
func (v *View[T]) WaitForDeletion(ctx context.Context, object T) error {
	return v.of.waitIn("", object, func(p *Partition[T]) error { return p.WaitForDeletion(ctx, object) })
}

// waitIn waits in the partition that an object is in, or in the whole.
func (c *Cache[T]) waitIn(cluster string, object T, wait func(*Partition[T]) error) error {
	key, version, err := c.whole.known(object)
	if err != nil {
		return err
	}
	if key.Cluster == "" {
		key.Cluster = cluster
	}
	for {
		p := c.partOf(key, version)
		if p == nil {
			return c.whole.waitError(key, version.ResourceVersion, fmt.Errorf("%w: it is in none; wait through the one that it was written to", ErrOutOfScope))
		}
		if err := wait(p); !errors.Is(err, errSplit) {
			return err
		}
	}
}

// partOf returns the partition that an object is in, the whole of a cache without
// partitions, or nil.
func (c *Cache[T]) partOf(key Key, version Version) *Partition[T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.partitions) == 0 {
		return c.whole
	}
	for _, p := range c.partitions {
		if p.scope.contains(key) && p.inShard(key, version) {
			return p
		}
	}
	return nil
}
