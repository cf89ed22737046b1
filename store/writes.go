package store

// Add implements [Store]. Adding under a key that is held is a Modification, or
// a Deletion and an Addition if the UIDs differ.
func (c *Cache[T]) Add(object T) error { return c.whole.Add(object) }

// Update implements [Store]. Updating under a key that is not held is an
// Addition.
func (c *Cache[T]) Update(object T) error { return c.whole.Update(object) }

// Delete implements [Store].
func (c *Cache[T]) Delete(object T) error { return c.whole.Delete(object) }

// DeleteKey implements [Store]. It does not move the resource version, because
// it is not told any: a [Cache.Bookmark] does.
func (c *Cache[T]) DeleteKey(key Key) error { return c.whole.DeleteKey(key) }

// Replace implements [Store]. An object that the cache holds with the same UID
// and resource version stays as it is, pointer included, and is no change.
//
// An object that is rejected keeps its old value, if its key is known or if one
// with its UID is held.
func (c *Cache[T]) Replace(objects []T, resourceVersion string) error {
	return c.whole.Replace(objects, resourceVersion)
}

// Bookmark implements [Store].
func (c *Cache[T]) Bookmark(resourceVersion string) error { return c.whole.Bookmark(resourceVersion) }

// BeginBatch implements [BatchStore].
func (c *Cache[T]) BeginBatch(self Store[T], replace bool) Batch[T] {
	if self != Store[T](c) {
		return nil
	}
	return c.whole.BeginBatch(c.whole, replace)
}

// Has implements [BatchStore].
func (c *Cache[T]) Has(key Key, version Version) bool { return c.whole.Has(key, version) }

// Add implements [Store]: see [Cache.Add].
func (p *Partition[T]) Add(object T) error {
	return p.apply([]Write[T]{{Type: Addition, Object: object}}, "")
}

// Update implements [Store]: see [Cache.Update].
func (p *Partition[T]) Update(object T) error {
	return p.apply([]Write[T]{{Type: Modification, Object: object}}, "")
}

// Delete implements [Store].
func (p *Partition[T]) Delete(object T) error {
	return p.apply([]Write[T]{{Type: Deletion, Object: object, FinalStateKnown: true}}, "")
}

// DeleteKey implements [Store]: see [Cache.DeleteKey].
func (p *Partition[T]) DeleteKey(key Key) error {
	return p.apply([]Write[T]{{Type: Deletion, Key: key}}, "")
}

// Replace implements [Store]: see [Cache.Replace]. What is outside of the scope
// is not touched.
func (p *Partition[T]) Replace(objects []T, resourceVersion string) error {
	b := newReplace(p, false, len(objects))
	defer b.Discard() // if a function ends the goroutine
	for i := range objects {
		if err := b.Write(Write[T]{Type: Addition, Object: objects[i]}); err != nil {
			break // Commit returns it
		}
	}
	return b.Commit(resourceVersion)
}

// Bookmark implements [Store].
func (p *Partition[T]) Bookmark(resourceVersion string) error {
	return p.apply(nil, resourceVersion)
}

// ResourceVersion implements [Store].
func (p *Partition[T]) ResourceVersion() string {
	p.of.mu.RLock()
	defer p.of.mu.RUnlock()
	return p.resourceVersion
}

// BeginBatch implements [BatchStore].
func (p *Partition[T]) BeginBatch(self Store[T], replace bool) Batch[T] {
	switch {
	case self != Store[T](p):
		return nil
	case replace:
		return newReplace(p, true, 0)
	}
	return &watchBatch[T]{of: p}
}

// Has implements [BatchStore].
func (p *Partition[T]) Has(key Key, version Version) bool {
	key, err := p.normalize(key)
	if err != nil {
		return false
	}
	held, ok := p.of.held(key)
	return ok && held.Equal(version)
}

// KeyOf returns the key that an object has in the cache, held or not. An error is
// what a write of it would be rejected with.
func (p *Partition[T]) KeyOf(object T) (Key, error) {
	key, _, err := p.identify(object)
	return key, err
}
