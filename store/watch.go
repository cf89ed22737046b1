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
	return v.of.watch(ctx, topic{key: Key{Namespace: namespace}, isNamespace: true})
}

func (c *Cache[T]) watch(ctx context.Context, of topic) iter.Seq[*Snapshot[T]] {
	return func(yield func(*Snapshot[T]) bool) {
		l := &loop{changed: make(chan struct{}, 1)}
		defer c.loops.add(l, of)()
		// The loop is added first, so that a commit after the first state wakes it.
		for s := c.Snapshot(); ctx.Err() == nil && yield(s); s = c.Snapshot() {
			for l.generation.Load() <= s.generation {
				select {
				case <-l.changed:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// topic is what a loop waits for: a change under a key, or with isNamespace, a change in the
// namespace of the key, in every cluster.
type topic struct {
	key         Key
	isNamespace bool
}

// loop is a caller of WatchKey or WatchNamespace that waits for a topic.
type loop struct {
	changed    chan struct{} // has a token if the topic changed since the last receive
	generation atomic.Uint64 // generation of the last commit that changed the topic
}

// loops has the loops that wait for topics of a cache. They are no followers, because a reader must not
// need the lock of the writer, as Follow does.
type loops struct {
	some atomic.Bool // there is at least one loop, so that a commit without loops does no more than ask

	mu  sync.Mutex // guards all
	all map[topic][]*loop
}

// add adds a loop to a topic. The caller must call remove.
func (l *loops) add(one *loop, of topic) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[topic][]*loop)
	}
	l.all[of] = append(l.all[of], one)
	l.some.Store(true)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all[of] = slices.DeleteFunc(l.all[of], func(other *loop) bool { return other == one })
		if len(l.all[of]) == 0 {
			delete(l.all, of)
		}
		l.some.Store(len(l.all) > 0)
	}
}

// wake wakes the loops after a commit became visible. The caller holds writer.
func (c *Cache[T]) wake(mutations []mutation[T]) {
	l := &c.loops
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range mutations {
		m := &mutations[i]
		if m.before == nil && m.after == nil {
			continue
		}
		for _, of := range [...]topic{{key: m.key}, {key: Key{Namespace: m.key.Namespace}, isNamespace: true}} {
			for _, one := range l.all[of] {
				one.generation.Store(c.generation)
				select {
				case one.changed <- struct{}{}:
				default: // it has a token already
				}
			}
		}
	}
}
