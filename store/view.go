package store

import (
	"context"
	"iter"
)

// View is a [Cache] for hands that may only read it. Indexes can be added to
// it. Their functions run for everybody: an object that one of them panics on is
// rejected by the cache.
//
// Get one from [Cache.View]. All methods are safe for concurrent use.
type View[T any] struct{ of *Cache[T] }

var (
	_ Reader[any]    = (*View[any])(nil)
	_ Indexable[any] = (*View[any])(nil)
)

// Get implements [Reader].
func (v *View[T]) Get(key Key) (T, bool) { return v.of.Get(key) }

// KeyOf is [Cache.KeyOf].
func (v *View[T]) KeyOf(object T) (Key, error) { return v.of.KeyOf(object) }

// All implements [Reader].
func (v *View[T]) All() iter.Seq2[Key, T] { return v.of.All() }

// Namespace implements [Reader].
func (v *View[T]) Namespace(namespace string) iter.Seq2[Key, T] { return v.of.Namespace(namespace) }

// Len implements [Reader].
func (v *View[T]) Len() int { return v.of.Len() }

// ResourceVersion implements [Reader].
func (v *View[T]) ResourceVersion() string { return v.of.ResourceVersion() }

// WatchKey is [Cache.WatchKey].
func (v *View[T]) WatchKey(ctx context.Context, key Key) iter.Seq[*Snapshot[T]] {
	return v.of.WatchKey(ctx, key)
}

// WatchNamespace is [Cache.WatchNamespace].
func (v *View[T]) WatchNamespace(ctx context.Context, namespace string) iter.Seq[*Snapshot[T]] {
	return v.of.WatchNamespace(ctx, namespace)
}

// WaitFor is [Cache.WaitFor].
func (v *View[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	return v.of.WaitFor(ctx, resourceVersion)
}

// WaitForObject is [Cache.WaitForObject].
func (v *View[T]) WaitForObject(ctx context.Context, object T) error {
	return v.of.WaitForObject(ctx, object)
}

// WaitForObjectIn is [Cache.WaitForObjectIn].
func (v *View[T]) WaitForObjectIn(ctx context.Context, cluster string, object T) error {
	return v.of.WaitForObjectIn(ctx, cluster, object)
}

// WaitForDeletion is [Cache.WaitForDeletion].
func (v *View[T]) WaitForDeletion(ctx context.Context, object T) error {
	return v.of.WaitForDeletion(ctx, object)
}

// Snapshot returns the current state.
func (v *View[T]) Snapshot() *Snapshot[T] { return v.of.Snapshot() }

// Follow is [Cache.Follow]. The follower runs while the cache is written, as the function
// of an index does.
func (v *View[T]) Follow(follower Follower[T]) (stop func()) { return v.of.Follow(follower) }

func (v *View[T]) cache() *Cache[T] { return v.of }
