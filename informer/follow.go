package informer

import (
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// Follow calls a follower with the state of the cache, and then with every commit, until stop is
// called. It is for instruments that need every step at the lowest cost. The follower runs while
// the cache is written, so the reflector waits for it. A subscriber, in contrast, has its own queue
// and pace. See [store.Follower] for the rules.
//
// When stop returns, no call is running and none will follow. stop may be called more than once,
// but not from the follower.
func (i *Informer[T]) Follow(follower store.Follower[T]) (stop func()) {
	return i.cache.Follow(follower)
}

// Subscriptions returns the open subscriptions, in the order in which they were made.
func (i *Informer[T]) Subscriptions() []*Subscription[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.subscriptions)
}
