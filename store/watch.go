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
func (c *Cache[T]) WatchKey(ctx context.Context, key Key) iter.Seq[*Snapshot[T]] {
	return c.watch(ctx, key)
}

// WatchNamespace is [Cache.WatchKey] for the objects of a namespace, in every
// cluster.
func (c *Cache[T]) WatchNamespace(ctx context.Context, namespace string) iter.Seq[*Snapshot[T]] {
	return c.watch(ctx, namespaceTopic(namespace))
}

// namespaceTopic and indexTopic are what can be watched, besides a Key.
type namespaceTopic string

type indexTopic[T any] struct {
	index *postings[T]
	value any
}

func (c *Cache[T]) watch(ctx context.Context, topic any) iter.Seq[*Snapshot[T]] {
	if same := topic; same != topic {
		// A NaN, which no object has and which a map would not give back.
		topic = new(watch)
	}
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
	mu sync.Mutex
	// topics are Keys, namespaceTopics and indexTopics; an any holds them all.
	topics map[any][]*watch
	// waiting counts the waiters of all partitions.
	waiting int
}

// watch is one who waits for changes of a topic.
type watch struct {
	changed    chan struct{} // has a token if something changed since the last look
	generation uint64        // of the last commit that did. Guarded by watches.mu
}

func (w *watches[T]) add(topic any) *watch {
	one := &watch{changed: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.topics == nil {
		w.topics = make(map[any][]*watch)
	}
	w.topics[topic] = append(w.topics[topic], one)
	return one
}

func (w *watches[T]) remove(topic any, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(w.topics[topic], func(other *watch) bool { return other == one })
	if len(rest) == 0 {
		delete(w.topics, topic)
		return
	}
	w.topics[topic] = rest
}

// latest returns the last commit that changed what one watches.
func (w *watches[T]) latest(one *watch) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return one.generation
}

// committed tells those who wait of a commit that is visible already. The caller
// holds Cache.writer.
func (w *watches[T]) committed(c *Cache[T], p *Partition[T], edits []edit[T], lowered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 {
		w.reachedLocked(p, lowered)
	}
	if len(w.topics) == 0 {
		return
	}
	for i := range edits {
		e := &edits[i]
		if e.old == nil && e.new == nil {
			continue
		}
		w.notifyLocked(e.key, c.generation)
		w.notifyLocked(namespaceTopic(e.key.Namespace), c.generation)
		for _, entry := range [...]*entry[T]{e.old, e.new} {
			if entry == nil {
				continue
			}
			for _, t := range entry.terms() {
				w.notifyLocked(indexTopic[T]{c.indexes[t.index], t.value}, c.generation)
			}
		}
	}
}

func (w *watches[T]) notifyLocked(topic any, generation uint64) {
	for _, one := range w.topics[topic] {
		one.generation = generation
		select {
		case one.changed <- struct{}{}:
		default:
		}
	}
}
