package persist

import (
	"errors"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/store"
	bolt "go.etcd.io/bbolt"
)

// Store is a [store.Cache] that keeps its content in a file for the next process. Read and write it
// like the cache. See the package documentation for its guarantees.
//
// Open one with [Open]. All methods are safe for concurrent use.
type Store[T any] struct {
	*store.View[T] // of cache

	cache   *store.Cache[T]
	path    string
	options Options[T]
	stop    func() // stops following the cache

	// writing serialises transactions, and protects the fields below it. Lock order: writing, then
	// mu. The writer of the cache takes mu only briefly, and never takes writing.
	writing sync.Mutex
	file    *boltFile                        // nil after Close
	update  func(func(*bolt.Tx) error) error // file.Update, except in tests
	saved   fileState
	unsure  bool                    // saved may differ from the state in the file
	lacking map[store.Key]change[T] // the objects that could not be encoded

	// mu protects the fields below it.
	mu       sync.Mutex
	progress progress   // after the last commit
	pending  pending[T] // for the next transaction
	flight   pending[T] // of the current transaction
	// written is the number of records that were written or read, and bytes their total length.
	written, bytes int
	stale          map[store.Scope]bool // the zero Scope for the cache itself
	state          State
	running        bool
	closed         bool
	changed        chan struct{} // closed when a transaction ends, or when one should start
}

var (
	_ store.BatchStore[any] = (*Store[any])(nil)
	_ store.Reader[any]     = (*Store[any])(nil)
	_ store.Indexable[any]  = (*Store[any])(nil)
)

// Open opens a file, or creates it, and returns a store with the objects in it. They are stale
// until the reflector that writes to the store reaches the server. keyOf is as for [store.New]:
// Open panics without one.
//
// The file belongs to one store at a time. Open creates it with the permissions 0600, and its
// directory with 0700. If the file is damaged, locked, or has other content, Open returns a
// [*FileError] and does not change the file.
//
// The store writes nothing until [Store.Run], [Store.Flush] or [Store.Close] is called, or until
// there are too many unwritten changes: see [Options]. Close the store when you no longer need it.
func Open[T any](path string, keyOf store.KeyFunc[T], options Options[T]) (*Store[T], error) {
	if keyOf == nil { // store.New would panic while the file is locked
		panic("persist: Open needs a KeyFunc, such as store.ObjectKey")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, &FileError{path, err}
	}
	keyOf = withShortKeys(keyOf)
	if !options.AllowSecrets {
		keyOf = withoutSecrets(keyOf, options.Resource)
	}
	file, l, err := load(path, options, keyOf)
	if err != nil {
		return nil, &FileError{path, err}
	}
	cache := store.New(keyOf)
	if err := l.restore(cache); err != nil {
		file.Close()
		return nil, &FileError{path, err}
	}
	s := &Store[T]{
		View:    &cache.View,
		cache:   cache,
		path:    path,
		options: options,
		file:    file,
		update:  file.Update,
		saved:   l.state,
		written: len(l.keys),
		bytes:   l.bytes,
		stale:   map[store.Scope]bool{},
		state:   State{Loaded: len(l.keys), Lasting: true},
		changed: make(chan struct{}),

		progress: progress{l.state.Version, map[store.Scope]string{}},
	}
	for _, scope := range l.state.Scopes {
		s.stale[scope.scope()] = true
		s.progress.scopes[scope.scope()] = scope.Version
	}
	if len(s.stale) == 0 {
		s.stale[store.Scope{}] = true
	}
	s.stop = cache.Follow(follower[T]{s.note})
	return s, nil
}

// Cache returns the cache of the store, for followers such as a collection of event queues. Writes
// to the cache go to the file as well, but do not wait when there are too many unwritten changes.
func (s *Store[T]) Cache() *store.Cache[T] { return s.cache }

// follower passes commits to a function.
type follower[T any] struct{ commit func(*store.Commit[T]) }

func (f follower[T]) Start(*store.Snapshot[T]) {}

func (f follower[T]) Commit(commit *store.Commit[T]) { f.commit(commit) }

// State reports how current the cache and the file are.
type State struct {
	// Loaded is the number of objects that Open read from the file.
	Loaded int

	// Stale is true while the cache shows only the state of an earlier process. It becomes false
	// when the reflector writes a list, a change or a bookmark, or when the server accepts a watch
	// from the version of the file. If Open read several partitions, each must have one of these.
	Stale bool

	// Lasting is false while the store cannot write the file, and after Close: Err has the reason.
	// The store still works, and the file keeps the last state that the store wrote. The next write
	// that succeeds sets it to true.
	Lasting bool
	Err     error

	// Unencoded is the number of objects whose current state is not in the file, because the codec
	// could not encode it: see persist-P8. The [EncodeError] of a write names the first of them.
	// The file has all other objects.
	Unencoded int

	// Written is the time of the last write; zero if there was none.
	Written time.Time

	// Unwritten is the number of changes that are not in the file yet, and UnwrittenBytes their
	// approximate encoded size. Since is the time of the first of them; zero if there is none.
	Unwritten      int
	UnwrittenBytes int
	Since          time.Time
}

// State returns the state of the store.
func (s *Store[T]) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Stale = len(s.stale) > 0
	state.Unwritten = s.pending.weight + s.flight.weight
	state.UnwrittenBytes = s.bytesLocked(state.Unwritten)
	state.Since = s.flight.since
	if state.Since.IsZero() {
		state.Since = s.pending.since
	}
	return state
}

// contact records that the reflector reached the server.
func (s *Store[T]) contact(scope store.Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stale, scope)
	delete(s.stale, store.Scope{}) // the reflector now uses partitions
}

// Resumed says that a reflector has reached the server: see [decorate.Resumer].
func (s *Store[T]) Resumed() { s.contact(store.Scope{}) }

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
