package store

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// WatchKey iterates over states of the cache until ctx ends: the current state, and then the latest
// state after each change of the object under a key. A slow loop body misses states, but never the
// latest.
//
// Use it to wait for a condition. For every event, with retries, use an event-queue collection.
func (v *View[T]) WatchKey(ctx context.Context, key Key) iter.Seq[*Snapshot[T]] {
	return v.of.watch(ctx, topic{ofKey, key})
}

// WatchNamespace is [View.WatchKey] for the objects of a namespace, in every
// cluster.
func (v *View[T]) WatchNamespace(ctx context.Context, namespace string) iter.Seq[*Snapshot[T]] {
	return v.of.watch(ctx, topic{ofNamespace, Key{Namespace: namespace}})
}

func (c *Cache[T]) watch(ctx context.Context, of topic) iter.Seq[*Snapshot[T]] {
	return func(yield func(*Snapshot[T]) bool) {
		w := newWatch("")
		defer c.watches.add(w, of)()
		// The watch is added first, so that a commit after the first state wakes it.
		for s := c.Snapshot(); ctx.Err() == nil && yield(s); s = c.Snapshot() {
			if w.wait(ctx, func() (bool, error) { return w.generation.Load() > s.generation, nil }) != nil {
				return
			}
		}
	}
}

// topic is what a watch waits for.
type topic struct {
	kind topicKind
	key  Key
}

type topicKind uint8

const (
	ofKey       topicKind = iota // a change under the key
	ofNamespace                  // a change in the key's namespace, in every cluster
	ofVersion                    // a partition has reached watch.wanted, or a version was lowered
)

// watch is one loop or one call that waits for a topic.
type watch struct {
	changed    chan struct{} // has a token if the topic changed since the last receive
	generation atomic.Uint64 // generation of the last commit that changed the topic
	wanted     string
}

func newWatch(wanted string) *watch { return &watch{changed: make(chan struct{}, 1), wanted: wanted} }

// wait calls check until it returns true or an error: at first, and after each wake.
func (w *watch) wait(ctx context.Context, check func() (bool, error)) error {
	for {
		ended := ctx.Err() != nil // before check, because a version that is reached counts
		if done, err := check(); done || err != nil {
			return err
		}
		if ended {
			return context.Cause(ctx)
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
	}
}

func (w *watch) wake(generation uint64) {
	w.generation.Store(generation)
	select {
	case w.changed <- struct{}{}:
	default: // it has a token already
	}
}

// watches are the watches of a cache.
type watches struct {
	mu  sync.Mutex
	all map[topic][]*watch
}

// add adds a watch to some topics. The caller must call remove.
func (w *watches) add(one *watch, topics ...topic) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[topic][]*watch)
	}
	for _, of := range topics {
		w.all[of] = append(w.all[of], one)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, of := range topics {
			w.all[of] = slices.DeleteFunc(w.all[of], func(other *watch) bool { return other == one })
			if len(w.all[of]) == 0 {
				delete(w.all, of)
			}
		}
	}
}

// wakeAll wakes all watches of a topic.
func (w *watches) wakeAll(of topic, generation uint64) {
	for _, one := range w.all[of] {
		one.wake(generation)
	}
}

// wake wakes the watches after a commit became visible. The caller holds Cache.writer.
func (c *Cache[T]) wake(p *Partition[T], s *txn[T]) {
	w := &c.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return
	}
	for _, one := range w.all[topic{kind: ofVersion}] {
		if ok, err := reached(p.resourceVersion, one.wanted); ok || err != nil || s.lowered {
			one.wake(c.generation)
		}
	}
	for i := range s.mutations {
		if m := &s.mutations[i]; m.old != nil || m.new != nil {
			w.wakeAll(topic{ofKey, m.key}, c.generation)
			w.wakeAll(topic{ofNamespace, Key{Namespace: m.key.Namespace}}, c.generation)
		}
	}
}

// partitionsChanged wakes all calls that wait for a resource version.
func (w *watches) partitionsChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeAll(topic{kind: ofVersion}, 0)
}
