package eventqueue

import "github.com/kubereflector/kubereflector/store"

// Add implements [store.Store]: it adds an object to the cache and queues the resulting event.
func (c *Collection[T]) Add(object T) error {
	return c.write(func(s *store.Cache[T]) error { return s.Add(object) })
}

// Update implements [store.Store].
func (c *Collection[T]) Update(object T) error {
	return c.write(func(s *store.Cache[T]) error { return s.Update(object) })
}

// Delete implements [store.Store]. It queues nothing for an object that the cache does not hold.
func (c *Collection[T]) Delete(object T) error {
	return c.write(func(s *store.Cache[T]) error { return s.Delete(object) })
}

// DeleteKey implements [store.Store].
func (c *Collection[T]) DeleteKey(key store.Key) error {
	return c.write(func(s *store.Cache[T]) error { return s.DeleteKey(key) })
}

// Replace implements [store.Store]. It queues nothing for objects that the cache holds at the same
// version. It queues a Deletion for each object that is missing from objects.
func (c *Collection[T]) Replace(objects []T, resourceVersion string) error {
	return c.write(func(s *store.Cache[T]) error { return s.Replace(objects, resourceVersion) })
}

// BeginBatch implements [store.BatchStore]. A commit of at most 1,024 changes queues all its events at
// once.
func (c *Collection[T]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != store.Store[T](c) {
		return nil
	}
	return &batch[T]{c.cache.BeginBatch(c.cache, replace), c}
}

// Has implements [store.BatchStore].
func (c *Collection[T]) Has(key store.Key, version store.Version, hash uint64) bool {
	return c.cache.Has(key, version, hash)
}

// KeyOf returns the key of an object, even if the cache does not hold it: see [store.View.KeyOf].
func (c *Collection[T]) KeyOf(object T) (store.Key, error) { return c.cache.KeyOf(object) }

// Bookmark implements [store.Store]. It queues nothing.
func (c *Collection[T]) Bookmark(resourceVersion string) error {
	return c.write(func(s *store.Cache[T]) error { return s.Bookmark(resourceVersion) })
}

// ResourceVersion implements [store.Store]: it returns the resource version of the cache.
func (c *Collection[T]) ResourceVersion() string { return c.cache.ResourceVersion() }

func (c *Collection[T]) write(to func(*store.Cache[T]) error) error {
	if err := c.readOnly(); err != nil {
		return err
	}
	return to(c.cache)
}

// readOnly returns the reason for which the collection takes no writes, or nil.
func (c *Collection[T]) readOnly() error {
	switch {
	case !c.owned:
		return ErrReadOnly
	case c.IsClosed():
		return ErrClosed
	}
	return nil
}

// batch is a batch of the cache that fails once the collection is closed.
type batch[T any] struct {
	store.Batch[T]
	of *Collection[T]
}

func (b *batch[T]) Write(w store.Write[T]) error {
	if err := b.of.readOnly(); err != nil {
		return err
	}
	return b.Batch.Write(w)
}

func (b *batch[T]) Commit(resourceVersion string) error {
	if err := b.of.readOnly(); err != nil {
		b.Discard()
		return err
	}
	return b.Batch.Commit(resourceVersion)
}
