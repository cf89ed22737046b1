package store

// cacheStage is a Stage of a cache or a part of it. It finds the values of the indexes when an
// object is put: what a compact store packs is not decoded once more for them.
type cacheStage[T any] struct {
	gathered[T]
	of *Partition[T]
	// ready has the entries of the objects, nil for those without; shorter if the cache had
	// no indexes. Guarded by Cache.writer, as their terms are.
	ready []*entry[T]
	// indexes is how many the cache had then.
	indexes int
}

// Stage implements [Stager].
func (c *Cache[T]) Stage(of Store[T]) Stage[T] {
	if of != Store[T](c) {
		return nil
	}
	return newCacheStage(c.whole, of)
}

// Stage implements [Stager].
func (p *Partition[T]) Stage(of Store[T]) Stage[T] {
	if of != Store[T](p) {
		return nil
	}
	return newCacheStage(p, of)
}

func newCacheStage[T any](p *Partition[T], of Store[T]) *cacheStage[T] {
	s := &cacheStage[T]{of: p}
	s.into = Batches(of)
	return s
}

func (s *cacheStage[T]) Put(object T, told Identity) error {
	_ = s.gathered.Put(object, told)
	c := s.of.of
	c.writer.Lock()
	defer c.writer.Unlock()
	if len(c.indexes) == 0 {
		return nil
	}
	if s.indexes != len(c.indexes) {
		s.releaseLocked()
		s.indexes = len(c.indexes)
	}
	// What is wrong with it is found out again when all is there.
	key, version, err := s.of.recognise(object, told)
	if held, ok := c.heldByWriter(key); ok && held.Equal(version) {
		return nil // it is going to stay, in most cases
	}
	if err == nil && s.of.own(key, version) == nil {
		if e, err := c.prepare(key, object, told.Version); err == nil {
			number := len(s.objects) - 1
			s.ready = append(append(s.ready, make([]*entry[T], number-len(s.ready))...), e)
		}
	}
	return nil
}

func (s *cacheStage[T]) Drop(number int) {
	s.gathered.Drop(number)
	if number < len(s.ready) && s.ready[number] != nil {
		c := s.of.of
		c.writer.Lock()
		defer c.writer.Unlock()
		c.release(s.ready[number].terms())
		s.ready[number] = nil
	}
}

func (s *cacheStage[T]) Commit(l Listing[T]) error {
	l.Objects, l.Identities = without(s.objects, s.dropped), without(s.told, s.dropped)
	s.ready = without(s.ready, s.dropped)
	s.gathered.Discard()
	return s.of.replace(l, s)
}

func (s *cacheStage[T]) Discard() {
	s.gathered.Discard()
	if len(s.ready) > 0 {
		s.of.of.writer.Lock()
		defer s.of.of.writer.Unlock()
		s.releaseLocked()
	}
}

// releaseLocked gives back what was prepared and not taken.
func (s *cacheStage[T]) releaseLocked() {
	if s == nil {
		return
	}
	for _, e := range s.ready {
		if e != nil {
			s.of.of.release(e.terms())
		}
	}
	s.ready = nil
}

// take returns the entry that was prepared of an object, if it is still what the indexes want.
func (s *cacheStage[T]) take(place int) *entry[T] {
	if s == nil || place >= len(s.ready) || s.indexes != len(s.of.of.indexes) {
		return nil
	}
	e := s.ready[place]
	s.ready[place] = nil
	if e != nil {
		for _, t := range e.terms() {
			// Others may have got its value while the list came, and it gets it now.
			if x := s.of.of.indexes[t.index]; x.clashes != nil {
				x.claim(t)
			}
		}
	}
	return e
}
