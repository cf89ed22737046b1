package otel

import "sync"

// maxRecent is how many things are remembered of one informer or of all reconcilers, so
// that somebody who stalls does not fill memory: about half a megabyte.
const maxRecent = 1024

// recent remembers the last few things by their keys. It may be used from any goroutine.
type recent[K comparable, V any] struct {
	mu sync.Mutex
	// all are the things, and slots their keys, of which the next one is forgotten first.
	// Guarded by mu.
	all   map[K]slotted[V]
	slots []K
	next  int
}

type slotted[V any] struct {
	value V
	slot  int
}

// change replaces what is remembered under a key by what fn returns of it, the zero V if
// there is nothing. What is new pushes out what was new longest ago.
func (r *recent[K, V]) change(key K, fn func(V) V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.all[key]; ok {
		r.all[key] = slotted[V]{fn(was.value), was.slot}
		return
	}
	if r.all == nil {
		r.all = map[K]slotted[V]{}
	}
	var none V
	r.all[key] = slotted[V]{fn(none), r.slotLocked(key)}
}

// slotLocked gives a key that is new a slot.
func (r *recent[K, V]) slotLocked(key K) (slot int) {
	if len(r.slots) < maxRecent {
		r.slots = append(r.slots, key)
		return len(r.slots) - 1
	}
	slot = r.next
	r.next = (r.next + 1) % maxRecent
	if old := r.slots[slot]; r.all[old].slot == slot {
		delete(r.all, old)
	}
	r.slots[slot] = key
	return slot
}

// get returns what is remembered under a key.
func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.all[key]
	return found.value, ok
}

// take returns what is remembered under a key, and forgets it.
func (r *recent[K, V]) take(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.all[key]
	delete(r.all, key)
	return found.value, ok
}
