package persist

import (
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/kubereflector/kubereflector/store"
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
	unsure  bool // saved may differ from the state in the file
	// lacking has the objects that could not be encoded, by key, and named has the first keys.
	lacking map[store.Key]change[T]
	named   []store.Key

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
// until the reflector that writes to the store reaches the server. keyOf is as for [store.New].
//
// The file belongs to one store at a time. Open creates it with the permissions 0600, and its
// directory with 0700. If the file is damaged, locked, or has other content, Open returns a
// [*FileError] and does not change the file.
//
// The store writes nothing until [Store.Run], [Store.Flush] or [Store.Close] is called, or until
// there are too many unwritten changes: see [Options]. Close the store when you no longer need it.
func Open[T any](path string, keyOf store.KeyFunc[T], options Options[T]) (*Store[T], error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, &FileError{path, err}
	}
	if keyOf != nil {
		keyOf = withShortKeys(keyOf)
		if !options.AllowSecrets {
			keyOf = withoutSecrets(keyOf, options.Resource)
		}
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
	}
	s.progress.version = l.state.Version
	for _, scope := range l.state.Scopes {
		s.stale[scope.scope()] = true
		s.setScope(scope.scope(), scope.Version)
	}
	if len(s.stale) == 0 {
		s.stale[store.Scope{}] = true
	}
	s.stop = cache.Follow(follower[T]{s})
	return s, nil
}

// Cache returns the cache of the store, for followers such as a collection of event queues. Writes
// to the cache go to the file as well, but do not wait when there are too many unwritten changes.
func (s *Store[T]) Cache() *store.Cache[T] { return s.cache }

// follower passes commits to note.
type follower[T any] struct{ of *Store[T] }

func (f follower[T]) Start(*store.Snapshot[T]) {}

func (f follower[T]) Commit(commit *store.Commit[T]) { f.of.note(commit) }

// setScope records the resource version of a partition. The caller holds mu.
func (s *Store[T]) setScope(scope store.Scope, version string) {
	if s.progress.scopes == nil {
		s.progress.scopes = map[store.Scope]string{}
	}
	s.progress.scopes[scope] = version
}
