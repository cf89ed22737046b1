package persist

import (
	"errors"

	"github.com/kubereflector/kubereflector/store"
)

// wrote ends a write: the reflector has reached the server, and the writer may have to wait.
func (s *Store[T]) wrote(scope store.Scope, err error) error {
	s.contact(scope)
	s.throttle()
	return err
}

// Add implements [store.Store].
func (s *Store[T]) Add(object T) error { return s.wrote(store.Scope{}, s.cache.Add(object)) }

// Update implements [store.Store].
func (s *Store[T]) Update(object T) error { return s.wrote(store.Scope{}, s.cache.Update(object)) }

// Delete implements [store.Store].
func (s *Store[T]) Delete(object T) error { return s.wrote(store.Scope{}, s.cache.Delete(object)) }

// DeleteKey implements [store.Store].
func (s *Store[T]) DeleteKey(key store.Key) error {
	return s.wrote(store.Scope{}, s.cache.DeleteKey(key))
}

// apart wraps the error of an overlap with the scopes of the store in a [*ScopesError].
func (s *Store[T]) apart(err error) error {
	if _, rejected := errors.AsType[*store.RejectedError](err); !rejected && errors.Is(err, store.ErrOutOfScope) {
		return &ScopesError{Path: s.path, Scopes: s.Scopes(), Err: err}
	}
	return err
}

// Replace implements [store.Store]. While the store has scopes, it fails with a [*ScopesError].
func (s *Store[T]) Replace(objects []T, resourceVersion string) error {
	return s.wrote(store.Scope{}, s.apart(s.cache.Replace(objects, resourceVersion)))
}

// Bookmark implements [store.Store].
func (s *Store[T]) Bookmark(resourceVersion string) error {
	return s.wrote(store.Scope{}, s.cache.Bookmark(resourceVersion))
}

// BeginBatch implements [store.BatchStore]. While the store has scopes, a list fails with a
// [*ScopesError].
func (s *Store[T]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != store.Store[T](s) {
		return nil
	}
	return &batch[T]{s.cache.BeginBatch(s.cache, replace), func(err error) error {
		if replace {
			err = s.apart(err)
		}
		return s.wrote(store.Scope{}, err)
	}}
}

// Has implements [store.BatchStore].
func (s *Store[T]) Has(key store.Key, version store.Version, hash uint64) bool {
	return s.cache.Has(key, version, hash)
}

// batch is a batch of the cache, or of a partition of it. Its Commit ends a write.
type batch[T any] struct {
	store.Batch[T]
	wrote func(error) error
}

func (b *batch[T]) Commit(resourceVersion string) error {
	return b.wrote(b.Batch.Commit(resourceVersion))
}

// partition is a partition of the cache whose writes go to the file.
type partition[T any] struct {
	*store.Partition[T]
	of *Store[T]
}

var _ store.BatchStore[any] = (*partition[any])(nil)

// Partition returns the partition of a scope. It has its own resource version, which the file
// stores as well. See [store.Cache.Partition] for its errors; an overlap is a [*ScopesError]. Call
// [Store.Drop] for the scopes in the file that you no longer need.
func (s *Store[T]) Partition(scope store.Scope) (store.BatchStore[T], error) {
	p, err := s.cache.Partition(scope)
	if err != nil {
		return nil, s.apart(err)
	}
	return &partition[T]{p, s}, nil
}

// Scopes returns the scopes of all partitions. The scopes that Open read from the file come first.
func (s *Store[T]) Scopes() []store.Scope {
	var all []store.Scope
	for _, p := range s.cache.Partitions() {
		all = append(all, p.Scope())
	}
	return all
}

// Drop is [store.Cache.Drop].
func (s *Store[T]) Drop(scope store.Scope) error {
	err := s.cache.Drop(scope)
	s.throttle()
	return err
}

func (p *partition[T]) wrote(err error) error { return p.of.wrote(p.Scope(), err) }

func (p *partition[T]) Add(object T) error    { return p.wrote(p.Partition.Add(object)) }
func (p *partition[T]) Update(object T) error { return p.wrote(p.Partition.Update(object)) }
func (p *partition[T]) Delete(object T) error { return p.wrote(p.Partition.Delete(object)) }

func (p *partition[T]) DeleteKey(key store.Key) error { return p.wrote(p.Partition.DeleteKey(key)) }

func (p *partition[T]) Replace(objects []T, resourceVersion string) error {
	return p.wrote(p.Partition.Replace(objects, resourceVersion))
}

func (p *partition[T]) Bookmark(resourceVersion string) error {
	return p.wrote(p.Partition.Bookmark(resourceVersion))
}

func (p *partition[T]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != store.Store[T](p) {
		return nil
	}
	return &batch[T]{p.Partition.BeginBatch(p.Partition, replace), p.wrote}
}

func (p *partition[T]) Resumed() { p.of.contact(p.Scope()) }
