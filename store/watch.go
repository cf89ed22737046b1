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
		w := &watch{changed: make(chan struct{}, 1)}
		defer c.watches.add(w, of)()
		// The watch is added first, so that a commit after the first state wakes it.
		for s := c.Snapshot(); ctx.Err() == nil && yield(s); s = c.Snapshot() {
			for w.generation.Load() <= s.generation {
				select {
				case <-w.changed:
				case <-ctx.Done():
					return
				}
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
)

// watch is one loop that waits for a topic.
type watch struct {
	changed    chan struct{} // has a token if the topic changed since the last receive
	generation atomic.Uint64 // generation of the last commit that changed the topic
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

// add adds a watch to a topic. The caller must call remove.
func (w *watches) add(one *watch, of topic) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[topic][]*watch)
	}
	w.all[of] = append(w.all[of], one)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all[of] = slices.DeleteFunc(w.all[of], func(other *watch) bool { return other == one })
		if len(w.all[of]) == 0 {
			delete(w.all, of)
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
func (c *Cache[T]) wake(mutations []mutation[T]) {
	w := &c.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return
	}
	for i := range mutations {
		if m := &mutations[i]; m.old != nil || m.new != nil {
			w.wakeAll(topic{ofKey, m.key}, c.generation)
			w.wakeAll(topic{ofNamespace, Key{Namespace: m.key.Namespace}}, c.generation)
		}
	}
}
