package otel

import "sync"

// maxRecent is the largest number of entries for one informer or for all reconcilers. It bounds the
// memory at about half a megabyte when a handler stalls.
const maxRecent = 1024

// recent keeps the latest entries by their keys. It may be used from any goroutine.
type recent[K comparable, V any] struct {
	mu sync.Mutex
	// all are the entries, and slots their keys. The entry at next is evicted first. Guarded by mu.
	all   map[K]slotted[V]
	slots []K
	next  int
}

type slotted[V any] struct {
	value V
	slot  int
}

// change replaces the entry of a key by the result of fn. fn gets the zero V if there is no entry.
// A new entry evicts the oldest one.
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

// slotLocked returns a slot for a new key.
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

// clear removes all entries.
func (r *recent[K, V]) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.slots, r.next = nil, nil, 0
}

// get returns the entry of a key.
func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.all[key]
	return found.value, ok
}

// take returns and removes the entry of a key.
func (r *recent[K, V]) take(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.all[key]
	delete(r.all, key)
	return found.value, ok
}
