package store

import "runtime"

// bundle hands entries of an index to a loop's body, some at a time. They lie
// anywhere in memory: asking for several at once, rather than for the next one
// after a body has run, lets the CPU wait for all of them at the same time. A walk
// takes half the time.
type bundle[T any] struct {
	yield   func(Key, T) bool
	entries [16]*entry[T]
	n       int
}

// add takes the next entry and reports whether the walk goes on.
func (b *bundle[T]) add(e *entry[T]) (more bool) {
	b.entries[b.n] = e
	b.n++
	return b.n < len(b.entries) || b.flush()
}

// flush hands out what was added and reports whether the walk goes on.
func (b *bundle[T]) flush() (more bool) {
	n := b.n
	b.n = 0
	touched := 0
	for _, e := range b.entries[:n] {
		touched += len(e.name)
	}
	runtime.KeepAlive(touched)
	for _, e := range b.entries[:n] {
		if !b.yield(e.key(), e.object) {
			return false
		}
	}
	return true
}
