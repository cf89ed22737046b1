package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

var (
	// ErrVersionLowered means that what is waited for may never come: the server
	// went back to an older state, as one does that was restored from a backup.
	ErrVersionLowered = errors.New("a list lowered the resource version: the server went back to an older state")

	// ErrNoVersion means that an object to be waited for has no resource version.
	ErrNoVersion = errors.New("object has no resource version: pass it as the server returned it")
)

// WaitError says why waiting for a resource version ended before it was reached.
type WaitError struct {
	// Wanted is the resource version that was waited for.
	Wanted string
	// Reached is how far the cache was when waiting ended.
	Reached string
	// Key is the object that was waited for, if it was one.
	Key Key
	// Err is [ErrVersionLowered], [ErrNoVersion], [ErrDropped], the cause of the
	// context, or an error of apimachinery's resourceversion for a version that
	// is no number.
	Err error
}

// Error names what was wanted, how far it got, and the cause.
func (e *WaitError) Error() string {
	object := ""
	if e.Key != (Key{}) {
		object = fmt.Sprintf(" of %q", e.Key)
	}
	return fmt.Sprintf("waiting for resource version %q%s, reached %q: %v", e.Wanted, object, e.Reached, e.Err)
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }

// lower reports whether a resource version is known to be less than another.
func lower(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && c < 0
}

// reached reports whether one resource version is at least another. A version
// that is not known reaches nothing.
func reached(version, wanted string) (bool, error) {
	if version == "" {
		return false, nil
	}
	c, err := resourceversion.CompareResourceVersion(version, wanted)
	return c >= 0 && err == nil, err
}

// waiter is one who waits for a resource version of a partition.
type waiter struct {
	wanted string
	done   chan struct{}
	err    error // why it is over, if not because the version is reached. Set before done is closed.
}

// await registers a waiter.
func (p *Partition[T]) await(wanted string) (*waiter, error) {
	if _, err := resourceversion.CompareResourceVersion(wanted, wanted); err != nil {
		return nil, err
	}
	w := &waiter{wanted: wanted, done: make(chan struct{})}
	watches := &p.of.watches
	watches.mu.Lock()
	defer watches.mu.Unlock()
	if p.dropped {
		return nil, ErrDropped
	}
	// A commit that is not seen here finds the waiter when it comes for mu.
	ok, err := reached(p.ResourceVersion(), wanted)
	switch {
	case err != nil:
		return nil, err
	case ok:
		close(w.done)
	default:
		at, _ := slices.BinarySearchFunc(p.waiters, wanted, func(w *waiter, wanted string) int {
			c, _ := resourceversion.CompareResourceVersion(w.wanted, wanted)
			return c
		})
		p.waiters = slices.Insert(p.waiters, at, w)
		watches.waiting++
	}
	return w, nil
}

// forget takes a waiter back.
func (p *Partition[T]) forget(w *waiter) {
	watches := &p.of.watches
	watches.mu.Lock()
	defer watches.mu.Unlock()
	if at := slices.Index(p.waiters, w); at >= 0 {
		p.waiters = slices.Delete(p.waiters, at, at+1)
		watches.waiting--
	}
}

// reachedLocked wakes those whose version is reached; all of them, if it was
// lowered.
func (w *watches[T]) reachedLocked(p *Partition[T], lowered bool) {
	n := 0
	for _, waiter := range p.waiters {
		ok, err := reached(p.resourceVersion, waiter.wanted)
		if !ok && err == nil && !lowered {
			break
		}
		if !ok {
			waiter.err = err
			if err == nil {
				waiter.err = ErrVersionLowered
			}
		}
		close(waiter.done)
		n++
	}
	p.waiters = slices.Delete(p.waiters, 0, n)
	w.waiting -= n
}

// drop ends all waiting for a partition. The caller holds Cache.writer.
func (w *watches[T]) drop(p *Partition[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.dropped = true
	for _, waiter := range p.waiters {
		waiter.err = ErrDropped
		close(waiter.done)
	}
	w.waiting -= len(p.waiters)
	p.waiters = nil
}

// WaitFor waits until the partition has seen everything up to a resource version,
// such as that of an object which was just written to the server: then it is
// visible, deletions included. Objects and bookmarks both count, so that with a
// selector it does not matter whether the object is in it.
//
// It returns nil, also if ctx has ended already and the resource version is
// reached, or a [*WaitError]: when ctx ends, when a Replace lowers the resource version ([ErrVersionLowered]), or when one of the versions is no
// number.
func (p *Partition[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	return p.wait(ctx, Key{}, resourceVersion, nil)
}

// wait waits for a version, or for an earlier end: until enough says so, which
// is asked again whenever the object of the key changes.
func (p *Partition[T]) wait(ctx context.Context, key Key, wanted string, enough func() bool) error {
	failed := func(err error) error {
		return &WaitError{Wanted: wanted, Reached: p.ResourceVersion(), Key: key, Err: err}
	}
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
// or a newer one, or is gone again, or is not selected. It returns a
// [*RejectedError] for an object without a key, and else what WaitFor returns.
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
			return &WaitError{Wanted: version.ResourceVersion, Reached: p.ResourceVersion(), Key: key, Err: context.Cause(ctx)}
		}
	}
}

// known returns the key and the version of an object to wait for.
func (p *Partition[T]) known(object T) (Key, Version, error) {
	key, version, err := p.identify(object)
	if err == nil && version.ResourceVersion == "" {
		err = ErrNoVersion
	}
	if err != nil {
		return key, version, rejectedError([]Rejection{{Key: key, Version: version, Err: err}})
	}
	return key, version, nil
}

// WaitFor is [Partition.WaitFor]. In a cache with partitions it waits for each of
// them.
func (c *Cache[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	for _, p := range c.parts() {
		if err := p.WaitFor(ctx, resourceVersion); err != nil {
			return err
		}
	}
	return nil
}

// WaitForObject is [Partition.WaitForObject] of the partition that the object is
// in.
func (c *Cache[T]) WaitForObject(ctx context.Context, object T) error {
	return c.partOf(object).WaitForObject(ctx, object)
}

// WaitForDeletion is [Partition.WaitForDeletion] of the partition that the object
// is in.
func (c *Cache[T]) WaitForDeletion(ctx context.Context, object T) error {
	return c.partOf(object).WaitForDeletion(ctx, object)
}

// parts returns the partitions, or the whole if there are none.
func (c *Cache[T]) parts() []*Partition[T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.partitions) == 0 {
		return []*Partition[T]{c.whole}
	}
	return slices.Clone(c.partitions)
}

// partOf returns the partition that holds an object, or the whole.
func (c *Cache[T]) partOf(object T) *Partition[T] {
	key, _, err := c.whole.identify(object)
	if err == nil {
		for _, p := range c.parts() {
			if p.scope != nil && p.scope.contains(key) {
				return p
			}
		}
	}
	return c.whole
}
