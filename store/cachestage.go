package store

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

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

	// shares are those of the objects in the budget, by number; empty without a limit. refused has
	// the objects that the budget left no room for, and ended is why no more are wanted. Guarded
	// by Cache.writer.
	shares  []int64
	refused map[int]Rejection
	ended   error
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
	if s.ended != nil {
		return s.ended
	}
	_ = s.gathered.Put(object, told)
	c := s.of.of
	c.writer.Lock()
	defer c.writer.Unlock()
	if c.budget != nil && c.budget.limit > 0 && !s.afford(object, told) {
		return s.ended
	}
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

// afford counts the last object in the budget. One that is too much is not kept. The caller holds
// writer.
func (s *cacheStage[T]) afford(object T, told Identity) bool {
	number := len(s.objects) - 1
	key, version, err := s.of.recognise(object, told)
	share, over := s.of.of.budget.gather(s.of.of, key, object)
	if over == nil {
		s.shares = append(append(s.shares, make([]int64, number-len(s.shares))...), share)
		return true
	}
	s.gathered.Drop(number)
	if len(s.refused) == maxOverBudget {
		s.ended = &listBudgetError{Limit: s.of.of.budget.limit, Rejected: maxOverBudget + 1}
		s.gathered.Discard()
		s.endLocked()
		return false
	}
	if err == nil {
		err = over
	}
	if s.refused == nil {
		s.refused = make(map[int]Rejection)
	}
	// What the object refers to is not to be kept by its name.
	key = Key{strings.Clone(key.Cluster), strings.Clone(key.Namespace), strings.Clone(key.Name)}
	version = Version{types.UID(strings.Clone(string(version.UID))), strings.Clone(version.ResourceVersion)}
	s.refused[number] = Rejection{Key: key, Version: version, Err: err}
	return false
}

func (s *cacheStage[T]) Drop(number int) {
	if s.ended != nil {
		return
	}
	s.gathered.Drop(number)
	delete(s.refused, number)
	if number < len(s.shares) && s.shares[number] != 0 {
		c := s.of.of
		c.writer.Lock()
		defer c.writer.Unlock()
		c.budget.giveBack(s.shares[number])
		s.shares[number] = 0
	}
	if number < len(s.ready) && s.ready[number] != nil {
		c := s.of.of
		c.writer.Lock()
		defer c.writer.Unlock()
		c.release(s.ready[number].terms())
		s.ready[number] = nil
	}
}

func (s *cacheStage[T]) Commit(l Listing[T]) error {
	if s.ended != nil {
		return s.ended
	}
	l.Objects, l.Identities = without(s.objects, s.dropped), without(s.told, s.dropped)
	l.Lacking = append(slices.Clip(l.Lacking), inOrder(s.refused)...)
	s.ready = without(s.ready, s.dropped)
	s.gathered.Discard()
	return s.of.replace(l, s)
}

func (s *cacheStage[T]) Discard() {
	s.gathered.Discard()
	if len(s.ready) > 0 || len(s.shares) > 0 {
		s.of.of.writer.Lock()
		defer s.of.of.writer.Unlock()
		s.endLocked()
	}
}

// endLocked gives back what the stage has of the cache and of its budget.
func (s *cacheStage[T]) endLocked() {
	if s == nil {
		return
	}
	for _, share := range s.shares {
		s.of.of.budget.giveBack(share)
	}
	s.shares, s.refused = nil, nil
	s.releaseLocked()
}

// releaseLocked gives back what was prepared and not taken.
func (s *cacheStage[T]) releaseLocked() {
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
	return e
}

// inOrder returns rejections in the order of their objects. It is not inlined where somebody has a
// cache, since it would be compiled there once more.
//
//go:noinline
func inOrder(refused map[int]Rejection) []Rejection {
	all := make([]Rejection, 0, len(refused))
	for _, number := range slices.Sorted(maps.Keys(refused)) {
		all = append(all, refused[number])
	}
	return all
}
