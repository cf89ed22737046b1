package persist

import (
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/kubereflector/kubereflector/store"
)

// Store is a [store.Cache] that has a file behind it, in which the next process finds
// what this one held. It is read like the cache, and written like it. See the package
// documentation for what it guarantees.
//
// Open one with [Open]. All methods are safe for concurrent use.
type Store[T any] struct {
	*store.View[T] // of cache

	cache   *store.Cache[T]
	path    string
	options Options[T]
	stop    func() // ends the following of the cache

	// writing is held while a transaction is made, and protects the fields below it. Lock
	// order: writing, then mu. The cache's writer holds mu for moments, and never
	// writing.
	writing sync.Mutex
	file    *boltFile                        // nil after Close
	update  func(func(*bolt.Tx) error) error // that of file, but in tests
	saved   fileState
	unsure  bool // whether saved is what the file has
	// lacking is what could not be encoded, by key, and named has the first keys.
	lacking map[store.Key]change[T]
	named   []store.Key

	// mu protects the fields below it.
	mu       sync.Mutex
	progress progress   // after the last commit
	pending  pending[T] // which the next transaction writes
	flight   pending[T] // which is being written
	// written is how many records were written or read, and bytes how long they were.
	written, bytes int
	stale          map[store.Scope]bool // the zero Scope for the cache itself
	state          State
	running        bool
	closed         bool
	changed        chan struct{} // closed when a transaction ended, or one is wanted
}

var (
	_ store.BatchStore[any] = (*Store[any])(nil)
	_ store.Reader[any]     = (*Store[any])(nil)
	_ store.Indexable[any]  = (*Store[any])(nil)
	_ store.Resumer         = (*Store[any])(nil)
)

// Open opens a file, or makes it, and returns a store of what is in it. What is read
// from it is stale until a reflector that writes to the store has heard of the
// server. keyOf is as for [store.New].
//
// The file belongs to one store at a time. It is made with the permissions 0600, and
// a directory for it with 0700. A file that is damaged, locked, or of something else is a
// [*FileError], and is left as it is.
//
// Nothing is written until [Store.Run], [Store.Flush] or [Store.Close] does it, or
// until there is too much to write: see [Options]. Close the store when it is not
// needed any more.
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

// Cache returns the cache that is read, to be followed, such as by a collection of
// event queues. What is written to it goes to the file as well, but does not wait
// when there is too much to write.
func (s *Store[T]) Cache() *store.Cache[T] { return s.cache }

// follower notes what is to be written.
type follower[T any] struct{ of *Store[T] }

func (f follower[T]) Start(*store.Snapshot[T]) {}

func (f follower[T]) Commit(commit *store.Commit[T]) { f.of.note(commit) }

// setScope notes the resource version of a partition. The caller holds mu.
func (s *Store[T]) setScope(scope store.Scope, version string) {
	if s.progress.scopes == nil {
		s.progress.scopes = map[store.Scope]string{}
	}
	s.progress.scopes[scope] = version
}
