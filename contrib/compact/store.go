package compact

import (
	"iter"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
)

// Store is a [store.BatchStore] and a [store.Reader] of T in little memory. It keeps packed objects
// in a cache: see [Store.Cache].
//
// Create one with [New]. All methods are safe for concurrent use.
type Store[T any] struct {
	packer *Packer[T]
	cache  *store.Cache[*Packed[T]]
	pack   store.BatchStore[T] // in front of cache
}

var (
	_ store.BatchStore[*struct{}] = (*Store[*struct{}])(nil)
	_ store.Reader[*struct{}]     = (*Store[*struct{}])(nil)
)

// New returns an empty store. keyOf derives the key of each object. Without a KeyFunc, or with a T
// that is no pointer to a struct, the store rejects every object.
func New[T any](keyOf store.KeyFunc[T], opts ...Option) *Store[T] {
	s := &Store[T]{packer: NewPacker(keyOf, opts...), cache: store.New(Key[T])}
	s.pack = decorate.Transform(&derivingStore[T]{s.cache}, s.KeyOf, s.packer.Pack).(store.BatchStore[T])
	return s
}

// Cache returns the cache of packed objects, for snapshots, indexes, waiting, watches and
// followers. It is also for partitions: write to one through [decorate.Transform], with the Pack of
// [Store.Packer].
func (s *Store[T]) Cache() *store.Cache[*Packed[T]] { return s.cache }

// Packer returns the packer of the store.
func (s *Store[T]) Packer() *Packer[T] { return s.packer }

// Get implements [store.Reader]. It decodes the object, unless it is among the objects that stay
// decoded: see [WithRecent].
func (s *Store[T]) Get(key store.Key) (object T, ok bool) {
	p, ok := s.cache.Get(key)
	if ok {
		object = p.Object()
	}
	return object, ok
}

// All implements [store.Reader]. An iteration decodes each object when it reaches it, and does not
// keep it decoded.
func (s *Store[T]) All() iter.Seq2[store.Key, T] { return Objects(s.cache.All()) }

// Namespace implements [store.Reader]: see [Store.All].
func (s *Store[T]) Namespace(namespace string) iter.Seq2[store.Key, T] {
	return Objects(s.cache.Namespace(namespace))
}

// Len implements [store.Reader].
func (s *Store[T]) Len() int { return s.cache.Len() }

// ResourceVersion implements [store.Reader] and [store.Store].
func (s *Store[T]) ResourceVersion() string { return s.cache.ResourceVersion() }

// Add implements [store.Store].
func (s *Store[T]) Add(object T) error {
	defer s.packer.recent.write()()
	return s.pack.Add(object)
}

// Update implements [store.Store].
func (s *Store[T]) Update(object T) error {
	defer s.packer.recent.write()()
	return s.pack.Update(object)
}

// Delete implements [store.Store].
func (s *Store[T]) Delete(object T) error {
	defer s.packer.recent.write()()
	return s.pack.Delete(object)
}

// DeleteKey implements [store.Store].
func (s *Store[T]) DeleteKey(key store.Key) error { return s.pack.DeleteKey(key) }

// Replace implements [store.Store].
func (s *Store[T]) Replace(objects []T, resourceVersion string) error {
	defer s.packer.recent.write()()
	return s.pack.Replace(objects, resourceVersion)
}

// Bookmark implements [store.Store].
func (s *Store[T]) Bookmark(resourceVersion string) error { return s.pack.Bookmark(resourceVersion) }

// Has implements [store.BatchStore].
func (s *Store[T]) Has(key store.Key, version store.Version, hash uint64) bool {
	return s.cache.Has(key, version, hash)
}

// KeyOf returns the key of an object, whether the store holds it or not.
func (s *Store[T]) KeyOf(object T) (store.Key, error) {
	if s.packer.failure != nil {
		return store.Key{}, s.packer.failure
	}
	return s.packer.keyOf(object)
}

// derivingStore is the cache. Its batches derive keys and versions from the packed objects, so that
// the cache keeps no other copies of these strings. A version that the packed object does not have, as
// after a Transform to a type without metadata, goes to the cache.
type derivingStore[T any] struct{ *store.Cache[*Packed[T]] }

// BeginBatch implements [store.BatchStore].
func (s *derivingStore[T]) BeginBatch(self store.Store[*Packed[T]], replace bool) store.Batch[*Packed[T]] {
	if self != store.Store[*Packed[T]](s) {
		return nil
	}
	return derivingBatch[T]{s.Cache.BeginBatch(s.Cache, replace)}
}

// derivingBatch is a batch of a derivingStore.
type derivingBatch[T any] struct{ store.Batch[*Packed[T]] }

func (b derivingBatch[T]) Write(w store.Write[*Packed[T]]) error {
	if w.Err == nil && (w.Type != store.Deletion || w.FinalStateKnown) {
		w.Key = store.Key{}
		if w.Version == store.VersionOf(w.Object) {
			w.Version = store.Version{}
		}
	}
	return b.Batch.Write(w)
}

// BeginBatch implements [store.BatchStore].
func (s *Store[T]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != store.Store[T](s) {
		return nil
	}
	into := s.pack.BeginBatch(s.pack, replace)
	if replace {
		return &listBatch[T]{Batch: into, of: s}
	}
	return &watchBatch[T]{Batch: into, of: s}
}

// listBatch packs each object as it comes. The object stays decoded during Write, because the cache
// runs the index functions there.
type listBatch[T any] struct {
	store.Batch[T]
	of     *Store[T]
	series series[T]
}

func (b *listBatch[T]) Write(w store.Write[T]) error {
	defer b.of.packer.recent.writeOf(&b.series)()
	return b.Batch.Write(w)
}

// watchBatch packs its objects in Commit. The objects stay decoded during Commit, because the cache
// runs the index functions there.
type watchBatch[T any] struct {
	store.Batch[T]
	of     *Store[T]
	writes []store.Write[T]
}

func (b *watchBatch[T]) Write(w store.Write[T]) error {
	b.writes = append(b.writes, w)
	return nil
}

func (b *watchBatch[T]) Commit(resourceVersion string) error {
	defer b.Discard()
	defer b.of.packer.recent.write()()
	for i := range b.writes {
		if err := b.Batch.Write(b.writes[i]); err != nil {
			return err
		}
	}
	return b.Batch.Commit(resourceVersion)
}

func (b *watchBatch[T]) Discard() {
	b.writes = nil
	b.Batch.Discard()
}
