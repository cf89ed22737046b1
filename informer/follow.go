package informer

import (
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// Follow tells a follower the state of the cache and from then on every commit, until
// stop has been called. It is for instruments that want every step at the least cost:
// the follower runs while the cache is written, and everybody waits for it, where a subscriber
// has a queue and a pace of its own. See [store.Follower] for what it may do.
//
// When stop returns, no call is running and none will come. It may be called more than
// once, but not from the follower.
func (i *Informer[T]) Follow(follower store.Follower[T]) (stop func()) {
	return i.cache.Follow(follower)
}

// Subscriptions returns the subscriptions that are not closed, in the order in which
// they came.
func (i *Informer[T]) Subscriptions() []*Subscription[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.subscriptions)
}
