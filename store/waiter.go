package store

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// errSplit means that the cache got its first partition while somebody waited for
// the whole of it, or before. It never leaves the package: one waits for the
// partitions then.
var errSplit = errors.New("cache has partitions")

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
	switch {
	case p.dropped:
		return nil, errDropped
	case p.split:
		return nil, errSplit
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
	w.endLocked(p, errDropped)
}

// split notes whether a whole has partitions, and sends those who wait for it to
// them. The caller holds Cache.writer.
func (w *watches[T]) split(whole *Partition[T], split bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole.split = split
	if split {
		w.endLocked(whole, errSplit)
	}
}

// endLocked ends all waiting for a partition.
func (w *watches[T]) endLocked(p *Partition[T], err error) {
	for _, waiter := range p.waiters {
		waiter.err = err
		close(waiter.done)
	}
	w.waiting -= len(p.waiters)
	p.waiters = nil
}
