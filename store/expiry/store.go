package expiry

import (
	"iter"
	"math"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// Store is a store whose objects live for a time. See the package documentation for what
// it guarantees.
//
// Create one with [New]. All methods are safe for concurrent use.
type Store[T any] struct {
	cache *store.Cache[*item[T]]
	into  store.BatchStore[T] // the cache, which it gives items
	life  func(T) time.Duration

	// writing serialises writes, so that nothing is written between finding out that an
	// object is over and taking it out. Lock order: writing, then the cache's, then mu.
	writing sync.Mutex

	mu       sync.Mutex // protects the fields below it
	queue    queue[T]
	timer    *time.Timer // nil until there is something to do
	sweeping bool        // what the queue does not have any more is being taken out
	closed   bool
}

var (
	_ store.BatchStore[any] = (*Store[any])(nil)
	_ store.Reader[any]     = (*Store[any])(nil)
)

// New returns an empty store of objects that keyOf gives their keys and life their time,
// from each write on. A time of 0 never ends, as all do if life is nil, nor does one of more than
// a hundred years; a negative one is over at once, so that the time until some moment can be given.
func New[T any](keyOf store.KeyFunc[T], life func(T) time.Duration) *Store[T] {
	if life == nil {
		life = func(T) time.Duration { return 0 }
	}
	var ofItem store.KeyFunc[*item[T]]
	if keyOf != nil {
		ofItem = func(i *item[T]) (store.Key, error) { return keyOf(i.object) }
	}
	s := &Store[T]{cache: store.New(ofItem), life: life, queue: queue[T]{places: map[store.Key]*place[T]{}}}
	s.into = store.Batches(store.Transform(s.cache, keyOf, s.wrap))
	s.cache.Follow((*follower[T])(s))
	return s
}

// For is a time for [New] that is the same for all objects.
func For[T any](life time.Duration) func(T) time.Duration {
	return func(T) time.Duration { return life }
}

func (s *Store[T]) wrap(object T) (*item[T], error) {
	i := &item[T]{object: object}
	i.renew(s.life(object))
	return i, nil
}

// Close ends the timer: from then on memory is not released by itself any more. What is
// over is still not read. It may be called more than once.
func (s *Store[T]) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// most is the number of objects that are taken out in one commit, so that those who
// read and write do not wait for long.
const most = 256

// sweep takes out what is over.
func (s *Store[T]) sweep() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	over := s.queue.over(now(), most)
	s.sweeping = true
	s.mu.Unlock()
	var batch store.Batch[*item[T]]
	for _, key := range over {
		batch.DeleteKey(key)
	}
	// Nothing of it can be rejected: the keys are those of what is held.
	_ = s.cache.Apply(&batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeping = false
	s.scheduleLocked()
}

// scheduleLocked sets the timer for the next one that is over.
func (s *Store[T]) scheduleLocked() {
	due, ok := s.queue.next()
	if !ok || s.closed {
		return
	}
	wait := due - now() + 1 // exactly at the end it still lives
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.sweep)
		return
	}
	s.timer.Reset(wait)
}

// Add implements [store.Store].
func (s *Store[T]) Add(object T) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.into.Add(object)
}

// Update implements [store.Store].
func (s *Store[T]) Update(object T) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.into.Update(object)
}

// Delete implements [store.Store].
func (s *Store[T]) Delete(object T) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.into.Delete(object)
}

// DeleteKey implements [store.Store].
func (s *Store[T]) DeleteKey(key store.Key) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.into.DeleteKey(key)
}

// Replace implements [store.Store].
func (s *Store[T]) Replace(objects []T, resourceVersion string) error {
	return s.ReplaceAll(store.Listing[T]{Objects: objects, ResourceVersion: resourceVersion})
}

// Bookmark implements [store.Store].
func (s *Store[T]) Bookmark(resourceVersion string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.into.Bookmark(resourceVersion)
}

// Apply implements [store.BatchStore].
func (s *Store[T]) Apply(batch *store.Batch[T]) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.into.Apply(batch)
}

// ReplaceAll implements [store.BatchStore].
func (s *Store[T]) ReplaceAll(listing store.Listing[T]) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.into.ReplaceAll(listing)
	s.renew(err)
	return err
}

// Holds implements [store.BatchStore]: an object whose time is over is not held.
func (s *Store[T]) Holds(key store.Key, version store.Version) bool {
	_, ok := s.Get(key)
	return ok && s.into.Holds(key, version)
}

// Itself implements [store.BatchStore].
func (s *Store[T]) Itself() store.Store[T] { return s }

// KeyOf returns the key of an object, held or not. An error is what a write of it would be
// rejected with.
func (s *Store[T]) KeyOf(object T) (store.Key, error) {
	return s.cache.KeyOf(&item[T]{object: object})
}

// Get implements [store.Reader].
func (s *Store[T]) Get(key store.Key) (object T, ok bool) {
	i, ok := s.cache.Get(key)
	if !ok || i.over(now()) {
		return object, false
	}
	return i.object, true
}

// living passes on the objects of a walk that live when it comes to them.
func living[T any](all iter.Seq2[store.Key, *item[T]]) iter.Seq2[store.Key, T] {
	return func(yield func(store.Key, T) bool) {
		for key, i := range all {
			if !i.over(now()) && !yield(key, i.object) {
				return
			}
		}
	}
}

// All implements [store.Reader].
func (s *Store[T]) All() iter.Seq2[store.Key, T] { return living(s.cache.All()) }

// Namespace implements [store.Reader].
func (s *Store[T]) Namespace(namespace string) iter.Seq2[store.Key, T] {
	return living(s.cache.Namespace(namespace))
}

// Len implements [store.Reader]. It looks at all objects while some that are over have
// not been taken out.
func (s *Store[T]) Len() int {
	s.mu.Lock()
	due, ok := s.queue.next()
	over := s.sweeping || ok && due < now()
	s.mu.Unlock()
	if !over {
		return s.cache.Len()
	}
	n := 0
	for range s.All() {
		n++
	}
	return n
}

// ResourceVersion implements [store.Store] and [store.Reader].
func (s *Store[T]) ResourceVersion() string { return s.cache.ResourceVersion() }

// never is the end of what has none.
const never = math.MaxInt64

var begin = time.Now()

// now returns the time, counted from some begin.
func now() time.Duration { return time.Since(begin) }
