package await

import (
	"container/heap"
	"reflect"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/store"
)

// hub follows a cache for all its waits. A commit checks only the waits for its keys, and the waits
// whose version it reaches. A Replace or a change of the partitions checks all.
type hub[T any] struct {
	cache  Cache[T]
	id     any // in hubs
	waits  int // guarded by hubs
	follow sync.Once
	stop   func()

	// mu protects the fields below it, and the waiters. The writer of the cache takes it inside its
	// own lock.
	mu         sync.Mutex
	all        map[*waiter[T]]bool
	keys       map[store.Key]map[*waiter[T]]bool
	versions   map[*store.Partition[T]]*byVersion[T]
	progress   map[*store.Partition[T]]progress
	partitions []*store.Partition[T]
}

// progress is the state of a partition at its last commit.
type progress struct {
	version string
	commits int
}

// hubs has the hub of each cache that has waits.
var hubs = struct {
	sync.Mutex
	of map[any]any
}{of: make(map[any]any)}

// join adds a waiter to the hub of its cache, and checks it: commits may have come since the first
// check. The caller must call leave.
func join[T any](w *waiter[T]) (leave func()) {
	var id any = w.cache
	if !reflect.ValueOf(id).Comparable() {
		id = w
	}
	hubs.Lock()
	h, ok := hubs.of[id].(*hub[T])
	if !ok {
		h = &hub[T]{
			cache: w.cache, id: id,
			all: make(map[*waiter[T]]bool), keys: make(map[store.Key]map[*waiter[T]]bool),
			versions: make(map[*store.Partition[T]]*byVersion[T]), progress: make(map[*store.Partition[T]]progress),
		}
		hubs.of[id] = h
	}
	h.waits++
	hubs.Unlock()
	h.follow.Do(func() { h.stop = h.cache.Follow(h) })
	h.add(w)
	return func() { h.leave(w) }
}

func (h *hub[T]) leave(w *waiter[T]) {
	h.mu.Lock()
	h.remove(w)
	h.mu.Unlock()
	hubs.Lock()
	h.waits--
	last := h.waits == 0
	if last {
		delete(hubs.of, h.id)
	}
	hubs.Unlock()
	if last {
		h.stop()
	}
}

func (h *hub[T]) add(w *waiter[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[w] = true
	w.keys = [2]store.Key{w.key, w.inCluster} // a check may change key
	for _, key := range w.keys {
		if key == (store.Key{}) {
			continue
		}
		if h.keys[key] == nil {
			h.keys[key] = make(map[*waiter[T]]bool)
		}
		h.keys[key][w] = true
	}
	for p, one := range w.parts {
		one.lowered = lower(w.versionOf(p), one.version)
	}
	if h.repartitioned() {
		h.checkAll()
	} else {
		h.check(w)
	}
}

// remove does nothing for a waiter that the hub does not have. The caller of remove, and of all
// methods below, holds mu.
func (h *hub[T]) remove(w *waiter[T]) {
	delete(h.all, w)
	for _, key := range w.keys {
		delete(h.keys[key], w)
		if len(h.keys[key]) == 0 {
			delete(h.keys, key)
		}
	}
	h.unqueue(w)
}

func (h *hub[T]) unqueue(w *waiter[T]) {
	if w.queue != nil {
		heap.Remove(w.queue, w.index)
	}
}

// check removes a waiter that has ended. Else it queues the waiter for the version of the partition
// that is behind.
func (h *hub[T]) check(w *waiter[T]) {
	if done, err := w.check(); done || err != nil {
		h.remove(w)
		w.ended <- err
		return
	}
	for p, one := range w.parts {
		one.commits = h.progress[p].commits
	}
	h.unqueue(w)
	if one := w.parts[w.behind]; one == nil || one.reached {
		return
	}
	q := h.versions[w.behind]
	if q == nil {
		q = &byVersion[T]{}
		h.versions[w.behind] = q
	}
	heap.Push(q, w)
}

func (h *hub[T]) checkAll() {
	for w := range h.all {
		h.check(w)
	}
}

// repartitioned reports whether the cache has other partitions than at the last call, and forgets
// those that were dropped. Making a partition is no commit.
func (h *hub[T]) repartitioned() bool {
	before := h.partitions
	h.partitions = h.cache.Partitions()
	for _, p := range before {
		if !slices.Contains(h.partitions, p) {
			delete(h.progress, p)
			delete(h.versions, p) // its waits fail in the next check
		}
	}
	return !slices.Equal(h.partitions, before)
}

// Start implements [store.Follower].
func (h *hub[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (h *hub[T]) Commit(commit *store.Commit[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, version := commit.Partition, commit.ResourceVersion
	if p != nil {
		version = p.ResourceVersion()
	}
	before := h.progress[p]
	h.progress[p] = progress{version, before.commits + 1}
	if commit.Origin == store.List {
		for w := range h.all {
			if one := w.parts[p]; one != nil {
				one.lowered = one.lowered || lower(commit.ObservedVersion, one.versionAt(before))
			}
		}
	}
	dropped := p == nil && commit.ObservedVersion == "" // or a deletion by key, which is rare
	if h.repartitioned() || dropped || commit.Origin == store.List || version != "" && notComparable(version) != nil {
		h.checkAll()
		return
	}
	for i := range commit.Changes {
		for w := range h.keys[commit.Changes[i].Key] {
			h.check(w)
		}
	}
	var due []*waiter[T]
	for q := h.versions[p]; q != nil && q.Len() > 0 && !lower(version, (*q)[0].version.ResourceVersion) && version != ""; {
		due = append(due, heap.Pop(q).(*waiter[T]))
	}
	for _, w := range due {
		h.check(w)
	}
}

// byVersion is a heap of waiters, the lowest version first.
type byVersion[T any] []*waiter[T]

func (q byVersion[T]) Len() int { return len(q) }

func (q byVersion[T]) Less(i, j int) bool {
	return lower(q[i].version.ResourceVersion, q[j].version.ResourceVersion)
}

func (q byVersion[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *byVersion[T]) Push(w any) {
	one := w.(*waiter[T])
	one.queue, one.index = q, len(*q)
	*q = append(*q, one)
}

func (q *byVersion[T]) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	w.queue, (*q)[last] = nil, nil
	*q = (*q)[:last]
	return w
}
