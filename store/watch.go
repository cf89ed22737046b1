package store

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// WatchKey iterates over states of the cache until ctx ends: the current state, and then the latest
// state after each change of the object under a key. A slow loop body misses states, but never the
// latest.
//
// Use it to wait for a condition. For every event, with retries, use an event-queue collection.
func (v *View[T]) WatchKey(ctx context.Context, key Key) iter.Seq[*Snapshot[T]] {
	return v.of.watch(ctx, topic{key: key})
}

// WatchNamespace is [View.WatchKey] for the objects of a namespace, in every
// cluster.
func (v *View[T]) WatchNamespace(ctx context.Context, namespace string) iter.Seq[*Snapshot[T]] {
	return v.of.watch(ctx, topic{Key{Namespace: namespace}, true})
}

// topic is a key, or the namespace of a key in every cluster.
type topic struct {
	key       Key
	namespace bool
}

func (c *Cache[T]) watch(ctx context.Context, of topic) iter.Seq[*Snapshot[T]] {
	return func(yield func(*Snapshot[T]) bool) {
		w := c.watches.add(of)
		defer c.watches.remove(of, w)
		// The watch is added first, so that a commit after the first state wakes it.
		s := c.Snapshot()
		for ctx.Err() == nil && yield(s) {
			for seen := s.generation; ; {
				select {
				case <-w.changed:
				case <-ctx.Done():
					return
				}
				if c.watches.latest(w) > seen {
					break
				}
			}
			s = c.Snapshot()
		}
	}
}

// watches are the loops of WatchKey and WatchNamespace, and the calls of WaitFor, that wait for a
// commit.
type watches[T any] struct {
	// mu protects the fields below it, and the waiters of all partitions.
	mu      sync.Mutex
	watches map[topic][]*watch
	// waiting counts the waiters of all partitions.
	waiting int
}

// watch is one loop that waits for changes of a topic.
type watch struct {
	changed    chan struct{} // has a token if the topic changed since the last receive
	generation uint64        // generation of the last commit that changed the topic. Guarded by watches.mu
}

func (w *watches[T]) add(of topic) *watch {
	one := &watch{changed: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watches == nil {
		w.watches = make(map[topic][]*watch)
	}
	w.watches[of] = append(w.watches[of], one)
	return one
}

func (w *watches[T]) remove(of topic, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches[of] = slices.DeleteFunc(w.watches[of], func(other *watch) bool { return other == one })
	if len(w.watches[of]) == 0 {
		delete(w.watches, of)
	}
}

// notifyLocked wakes the watches of a topic.
func (w *watches[T]) notifyLocked(of topic, generation uint64) {
	for _, one := range w.watches[of] {
		one.generation = generation
		select {
		case one.changed <- struct{}{}:
		default: // it has a token already
		}
	}
}

// latest returns the generation of the last commit that changed a watch's topic.
func (w *watches[T]) latest(one *watch) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return one.generation
}

// committed wakes waiters and watches after a commit became visible. The caller holds Cache.writer.
func (w *watches[T]) committed(c *Cache[T], p *Partition[T], mutations []mutation[T], lowered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 {
		w.reachedLocked(p, lowered)
	}
	if len(w.watches) == 0 {
		return
	}
	for i := range mutations {
		e := &mutations[i]
		if e.old == nil && e.new == nil {
			continue
		}
		w.notifyLocked(topic{key: e.key}, c.generation)
		w.notifyLocked(topic{Key{Namespace: e.key.Namespace}, true}, c.generation)
	}
}

// errSplit ends waiting for the whole of a cache that has partitions. View.WaitFor and waitIn then
// wait for the partitions, so the error never leaves the package.
var errSplit = errors.New("cache has partitions")

// waiter is one call that waits for a resource version of a partition.
type waiter struct {
	wanted string
	done   chan struct{}
	err    error // why waiting ended; nil if the version is reached. Set before done is closed.
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
		return nil, p.scopeError(errDropped)
	case p.split:
		return nil, errSplit
	}
	// A later commit takes watches.mu and finds the waiter.
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

// forget removes a waiter.
func (p *Partition[T]) forget(w *waiter) {
	watches := &p.of.watches
	watches.mu.Lock()
	defer watches.mu.Unlock()
	if at := slices.Index(p.waiters, w); at >= 0 {
		p.waiters = slices.Delete(p.waiters, at, at+1)
		watches.waiting--
	}
}

// reachedLocked wakes the waiters whose version is reached, or all of them if the version was lowered.
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

// drop marks a partition as dropped and ends its waiters. The caller holds Cache.writer.
func (w *watches[T]) drop(p *Partition[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.dropped = true
	w.endLocked(p, p.scopeError(errDropped))
}

// split notes whether the cache has partitions. If so, it ends the waiters of the whole with errSplit.
// The caller holds Cache.writer.
func (w *watches[T]) split(whole *Partition[T], split bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole.split = split
	if split {
		w.endLocked(whole, errSplit)
	}
}

// endLocked ends the waiters of a partition with an error.
func (w *watches[T]) endLocked(p *Partition[T], err error) {
	for _, waiter := range p.waiters {
		waiter.err = err
		close(waiter.done)
	}
	w.waiting -= len(p.waiters)
	p.waiters = nil
}
