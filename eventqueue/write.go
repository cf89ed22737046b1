package eventqueue

import "github.com/kubereflector/kubereflector/store"

// Add implements [store.Store]: it adds an object to the cache, and queues what
// that means.
func (c *Collection[T]) Add(object T) error {
	return c.write(func(s store.BatchStore[T]) error { return s.Add(object) })
}

// Update implements [store.Store].
func (c *Collection[T]) Update(object T) error {
	return c.write(func(s store.BatchStore[T]) error { return s.Update(object) })
}

// Delete implements [store.Store]. For an object that the cache does not hold
// nothing is queued.
func (c *Collection[T]) Delete(object T) error {
	return c.write(func(s store.BatchStore[T]) error { return s.Delete(object) })
}

// DeleteKey implements [store.Store].
func (c *Collection[T]) DeleteKey(key store.Key) error {
	return c.write(func(s store.BatchStore[T]) error { return s.DeleteKey(key) })
}

// Replace implements [store.Store]. Nothing is queued for objects that the cache
// holds at the same version; a Deletion is queued for each that is missing.
func (c *Collection[T]) Replace(objects []T, resourceVersion string) error {
	return c.write(func(s store.BatchStore[T]) error { return s.Replace(objects, resourceVersion) })
}

// Apply implements [store.BatchStore]. All that the batch means is queued at once.
func (c *Collection[T]) Apply(batch *store.Batch[T]) error {
	return c.write(func(s store.BatchStore[T]) error { return s.Apply(batch) })
}

// ReplaceAll implements [store.BatchStore].
func (c *Collection[T]) ReplaceAll(listing store.Listing[T]) error {
	return c.write(func(s store.BatchStore[T]) error { return s.ReplaceAll(listing) })
}

// Holds implements [store.BatchStore].
func (c *Collection[T]) Holds(key store.Key, version store.Version) bool {
	return c.cache.Holds(key, version)
}

// Itself implements [store.BatchStore].
func (c *Collection[T]) Itself() store.Store[T] { return c }

// KeyOf returns the key of an object, held or not: see [store.Cache.KeyOf].
func (c *Collection[T]) KeyOf(object T) (store.Key, error) { return c.cache.KeyOf(object) }

// Bookmark implements [store.Store]. It queues nothing.
func (c *Collection[T]) Bookmark(resourceVersion string) error {
	return c.write(func(s store.BatchStore[T]) error { return s.Bookmark(resourceVersion) })
}

// ResourceVersion implements [store.Store]: it is that of the cache.
func (c *Collection[T]) ResourceVersion() string { return c.cache.ResourceVersion() }

func (c *Collection[T]) write(to func(store.BatchStore[T]) error) error {
	if !c.owned {
		return ErrReadOnly
	}
	if c.isClosed() {
		return ErrClosed
	}
	return to(c.cache)
}
