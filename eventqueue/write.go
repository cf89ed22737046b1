package eventqueue

import "github.com/kubereflector/kubereflector/store"

// Add implements [store.Store]: it adds an object to the cache, and queues what
// that means.
func (c *Collection[T]) Add(object T) error {
	return c.write(func(s store.LackingStore[T]) error { return s.Add(object) })
}

// Update implements [store.Store].
func (c *Collection[T]) Update(object T) error {
	return c.write(func(s store.LackingStore[T]) error { return s.Update(object) })
}

// Delete implements [store.Store]. For an object that the cache does not hold
// nothing is queued.
func (c *Collection[T]) Delete(object T) error {
	return c.write(func(s store.LackingStore[T]) error { return s.Delete(object) })
}

// DeleteKey implements [store.Store].
func (c *Collection[T]) DeleteKey(key store.Key) error {
	return c.write(func(s store.LackingStore[T]) error { return s.DeleteKey(key) })
}

// Replace implements [store.Store]. Nothing is queued for objects that the cache
// holds at the same version; a Deletion is queued for each that is missing.
func (c *Collection[T]) Replace(objects []T, resourceVersion string) error {
	return c.write(func(s store.LackingStore[T]) error { return s.Replace(objects, resourceVersion) })
}

// Lack implements [store.LackingStore]. It queues nothing.
func (c *Collection[T]) Lack(rejection store.Rejection) error {
	return c.write(func(s store.LackingStore[T]) error { return s.Lack(rejection) })
}

// ReplaceExcept implements [store.LackingStore].
func (c *Collection[T]) ReplaceExcept(objects []T, lacking []store.Rejection, resourceVersion string) error {
	return c.write(func(s store.LackingStore[T]) error { return s.ReplaceExcept(objects, lacking, resourceVersion) })
}

// Bookmark implements [store.Store]. It queues nothing.
func (c *Collection[T]) Bookmark(resourceVersion string) error {
	return c.write(func(s store.LackingStore[T]) error { return s.Bookmark(resourceVersion) })
}

// ResourceVersion implements [store.Store]: it is that of the cache.
func (c *Collection[T]) ResourceVersion() string { return c.cache.ResourceVersion() }

func (c *Collection[T]) write(to func(store.LackingStore[T]) error) error {
	if !c.owned {
		return ErrReadOnly
	}
	if c.isClosed() {
		return ErrClosed
	}
	return to(c.cache)
}
