package store

import (
	"context"
	"iter"
	"slices"
	"sync"
)

// WatchKey iterates over states of the cache: the current one, and then the
// latest whenever what is held under a key has changed, until ctx ends. A body
// that takes its time misses states, never the last one.
//
// It is for those who wait for something. Events, with retries and nothing
// missed, come from an event-queue collection.
func (v *View[T]) WatchKey(ctx context.Context, key Key) iter.Seq[*Snapshot[T]] {
	return v.of.watch(ctx, key)
}

// WatchNamespace is [View.WatchKey] for the objects of a namespace, in every
// cluster.
func (v *View[T]) WatchNamespace(ctx context.Context, namespace string) iter.Seq[*Snapshot[T]] {
	return v.of.watch(ctx, namespaceTopic(namespace))
}

// namespaceTopic is what can be watched, besides a Key.
type namespaceTopic string

func (c *Cache[T]) watch(ctx context.Context, topic any) iter.Seq[*Snapshot[T]] {
	return func(yield func(*Snapshot[T]) bool) {
		w := c.watches.add(topic)
		defer c.watches.remove(topic, w)
		// The watch came first: a commit that the first state does not have
		// will be heard of.
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

// watches are those who wait for something to happen in a cache.
type watches[T any] struct {
	// mu protects the fields below it, and the waiters of all partitions. It is
	// held for moments only.
	mu         sync.Mutex
	keys       topics[Key]
	namespaces topics[string]
	// waiting counts the waiters of all partitions.
	waiting int
}

// watch is one who waits for changes of a topic.
type watch struct {
	changed    chan struct{} // has a token if something changed since the last look
	generation uint64        // of the last commit that did. Guarded by watches.mu
}

// topics has those who watch each of some things of one kind.
type topics[K comparable] map[K][]*watch

func (t *topics[K]) add(topic K, one *watch) {
	if *t == nil {
		*t = make(topics[K])
	}
	(*t)[topic] = append((*t)[topic], one)
}

func (t topics[K]) remove(topic K, one *watch) {
	rest := slices.DeleteFunc(t[topic], func(other *watch) bool { return other == one })
	if len(rest) == 0 {
		delete(t, topic)
		return
	}
	t[topic] = rest
}

func (t topics[K]) notify(topic K, generation uint64) {
	for _, one := range t[topic] {
		one.generation = generation
		select {
		case one.changed <- struct{}{}:
		default:
		}
	}
}

func (w *watches[T]) add(topic any) *watch {
	one := &watch{changed: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch topic := topic.(type) {
	case Key:
		w.keys.add(topic, one)
	case namespaceTopic:
		w.namespaces.add(string(topic), one)
	}
	return one
}

func (w *watches[T]) remove(topic any, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch topic := topic.(type) {
	case Key:
		w.keys.remove(topic, one)
	case namespaceTopic:
		w.namespaces.remove(string(topic), one)
	}
}

// latest returns the last commit that changed what one watches.
func (w *watches[T]) latest(one *watch) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return one.generation
}

// committed tells those who wait of a commit that is visible already. The caller
// holds Cache.writer.
func (w *watches[T]) committed(c *Cache[T], p *Partition[T], mutations []mutation[T], lowered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 {
		w.reachedLocked(p, lowered)
	}
	if len(w.keys) == 0 && len(w.namespaces) == 0 {
		return
	}
	for i := range mutations {
		e := &mutations[i]
		if e.old == nil && e.new == nil {
			continue
		}
		if len(w.keys) > 0 {
			w.keys.notify(e.key, c.generation)
		}
		if len(w.namespaces) > 0 {
			w.namespaces.notify(e.key.Namespace, c.generation)
		}
	}
}
