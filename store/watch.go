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
	return v.of.watch(ctx, topic{key: key})
}

// WatchNamespace is [View.WatchKey] for the objects of a namespace, in every cluster.
func (v *View[T]) WatchNamespace(ctx context.Context, namespace string) iter.Seq[*Snapshot[T]] {
	return v.of.watch(ctx, topic{Key{Namespace: namespace}, true})
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

// topic is what a watch waits for: a change under a key, or with isNamespace, a change in the
// namespace of the key, in every cluster.
type topic struct {
	key         Key
	isNamespace bool
}

// watch is one loop that waits for a topic.
type watch struct {
	changed    chan struct{} // has a token if the topic changed since the last receive
	generation atomic.Uint64 // generation of the last commit that changed the topic
}

// watches are the loops that wait for topics of a cache. They are no followers, because a reader must not
// need the lock of the writer, as Follow does.
type watches struct {
	some atomic.Bool // there is at least one loop, so that a commit without loops does no more than ask

	mu  sync.Mutex // guards all
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
	w.some.Store(true)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all[of] = slices.DeleteFunc(w.all[of], func(other *watch) bool { return other == one })
		if len(w.all[of]) == 0 {
			delete(w.all, of)
		}
		w.some.Store(len(w.all) > 0)
	}
}

// wake wakes the loops after a commit became visible. The caller holds writer.
func (c *Cache[T]) wake(mutations []mutation[T]) {
	w := &c.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range mutations {
		m := &mutations[i]
		if m.before == nil && m.after == nil {
			continue
		}
		for _, of := range [...]topic{{key: m.key}, {Key{Namespace: m.key.Namespace}, true}} {
			for _, one := range w.all[of] {
				one.generation.Store(c.generation)
				select {
				case one.changed <- struct{}{}:
				default: // it has a token already
				}
			}
		}
	}
}
