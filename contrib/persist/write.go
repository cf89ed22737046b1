package persist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/store"
	bolt "go.etcd.io/bbolt"
)

// note records a commit for the next transaction. It runs under the lock of the cache's writer.
func (s *Store[T]) note(commit *store.Commit[T]) {
	var scope store.Scope
	var version string
	var parts []*store.Partition[T]
	if commit.Partition != nil {
		scope, version = commit.Partition.Scope(), commit.Partition.ResourceVersion()
	} else {
		parts = s.cache.Partitions()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.progress.version = commit.ResourceVersion
	if commit.Partition != nil {
		s.progress.scopes[scope] = version
	} else if len(s.progress.scopes) > 0 {
		// A Drop may have dropped some.
		maps.DeleteFunc(s.progress.scopes, func(scope store.Scope, _ string) bool {
			return !slices.ContainsFunc(parts, func(p *store.Partition[T]) bool { return p.Scope() == scope })
		})
		maps.DeleteFunc(s.stale, func(scope store.Scope, _ bool) bool {
			_, ok := s.progress.scopes[scope]
			return !ok
		})
	}
	p := &s.pending
	for i := range commit.Changes {
		p.add(&commit.Changes[i])
	}
	p.commits++
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if p.commits == 1 || s.overLocked() {
		s.wakeLocked()
	}
}

// overLocked reports whether the pending changes take more than half of MaxUnwritten, so that a
// transaction should start. The other half is for changes that come meanwhile.
func (s *Store[T]) overLocked() bool {
	return s.bytesLocked(s.pending.weight) > s.options.MaxUnwritten/2
}

// bytesLocked estimates the encoded size of some changes.
func (s *Store[T]) bytesLocked(changes int) int {
	mean := 1024
	if s.written > 0 {
		mean = max(1, s.bytes/s.written)
	}
	return changes * mean
}

func (s *Store[T]) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// throttle waits while there are too many unwritten changes. If Run is not active, throttle writes
// them itself.
func (s *Store[T]) throttle() {
	for {
		s.mu.Lock()
		over := s.state.Lasting && !s.closed && s.bytesLocked(s.pending.weight+s.flight.weight) > s.options.MaxUnwritten
		running, changed := s.running, s.changed
		s.mu.Unlock()
		if !over {
			return
		}
		if !running {
			s.flush(false)
			continue
		}
		<-changed
	}
}

// maxRetry is the longest pause before Run tries a failed write again.
const maxRetry = time.Minute

// Run writes changes to the file until ctx ends. It then writes the rest, and returns nil or the
// error of that write. If a write fails, Run tries again after pauses that grow to a minute. The
// store still works, and its [State] says that it is not lasting. Run returns
// reflector.ErrRunning if another Run is active, and [ErrClosed] after Close. It may be called again.
func (s *Store[T]) Run(ctx context.Context) error {
	s.mu.Lock()
	closed, running := s.closed, s.running
	s.running = s.running || !closed
	s.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case running:
		return lifecycle.AlreadyRunning("store of " + s.path)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running = false
		s.wakeLocked()
	}()
	pause := max(s.options.Delay, 0)
	for s.await(ctx, pause) {
		s.flush(false)
		if s.State().Lasting {
			pause = max(s.options.Delay, 0)
		} else {
			pause = min(max(2*pause, 100*time.Millisecond), maxRetry)
		}
	}
	if err := s.flush(true); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// await waits until Run should write: a pause after the first change or after the last failure, or
// when there are too many pending changes. It returns false when ctx ends or the store is closed.
func (s *Store[T]) await(ctx context.Context, pause time.Duration) bool {
	begin := time.Now()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		s.mu.Lock()
		from, over, closed, changed := s.pending.since, s.overLocked(), s.closed, s.changed
		if !s.state.Lasting {
			from, over = begin, false
		}
		s.mu.Unlock()
		if closed || ctx.Err() != nil {
			return false
		}
		var due <-chan time.Time
		if !from.IsZero() {
			left := time.Until(from.Add(pause))
			if over || left <= 0 {
				return true
			}
			timer.Reset(left)
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
		}
	}
}

// Flush writes all changes that were readable before the call. When it returns nil, they are in the
// file. Its errors are a [*FileError], which wraps [ErrReplaced] if the file was deleted or
// replaced, and [ErrClosed]. It also tries again to encode the objects that could not be encoded
// before. If that fails, it returns a FileError with an [*EncodeError], and all other changes are
// in the file. Do not call it from a follower of the cache.
func (s *Store[T]) Flush() error {
	// Readers see a commit before its followers receive it. Follow waits for the writer of the
	// cache, so the store's own follower has noted the commit after this call.
	s.cache.Follow(follower[T]{func(*store.Commit[T]) {}})()
	return s.flush(true)
}

// flush writes the pending changes, and reports a failure to the error handler.
func (s *Store[T]) flush(all bool) error {
	err := s.transact(all)
	if err != nil && !errors.Is(err, ErrClosed) {
		s.options.ErrorHandler(err) // may close the store
	}
	return err
}

// errEnded is the error of a transaction if a codec ended the goroutine.
var errEnded = errors.New("codec ended the goroutine")

// transact writes the pending changes. If all is true, it also tries to encode again the objects
// that could not be encoded before. Otherwise it skips them until they change, because they may be
// many.
func (s *Store[T]) transact(all bool) (err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.file == nil {
		return ErrClosed
	}
	gone := s.file.inPlace(s.path)
	s.mu.Lock()
	if gone != nil {
		gone = &FileError{s.path, gone}
		s.state.Lasting, s.state.Err = false, gone
		s.wakeLocked()
		s.mu.Unlock()
		return gone
	}
	all = all && len(s.lacking) > 0
	if s.pending.commits == 0 && !all {
		s.state.Lasting, s.state.Err = true, nil // failed changes would be pending; or the file is back
		s.mu.Unlock()
		return nil
	}
	if all {
		again := pending[T]{changes: maps.Clone(s.lacking), commits: 1, since: s.pending.since}
		if again.since.IsZero() {
			again.since = time.Now()
		}
		s.pending = again.followedBy(s.pending)
	}
	batch := s.pending
	batch.progress = progress{s.progress.version, maps.Clone(s.progress.scopes)}
	s.flight, s.pending = batch, pending[T]{}
	s.mu.Unlock()

	var w writer[T]
	err = errEnded
	defer func() { err = s.settle(batch, w, err) }()
	w, err = s.write(batch)
	return err
}

// settle records the result of a transaction. The caller holds writing.
func (s *Store[T]) settle(batch pending[T], w writer[T], err error) error {
	if err != nil {
		err = &FileError{s.path, err}
		batch = s.left(batch, w)
	} else {
		s.saved = w.state
		s.noteLacking(batch, w)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight = pending[T]{}
	s.state.Lasting, s.state.Err = err == nil, err
	s.state.Unencoded = len(s.lacking)
	if err == nil {
		s.state.Written = time.Now()
		s.written += w.records
		s.bytes += w.bytes
	} else {
		s.pending = batch.followedBy(s.pending)
	}
	s.wakeLocked()
	if lack := w.failures.error(); err == nil && lack != nil {
		return &FileError{s.path, lack}
	}
	return err
}

// left returns the part of a batch that must be written again. A transaction that failed at its
// very end may be in the file nevertheless. The caller holds writing.
func (s *Store[T]) left(batch pending[T], w writer[T]) pending[T] {
	begun := !s.unsure // otherwise write did not learn what the file has, and made no transaction
	made, err := stateOf(s.file)
	if s.unsure = err != nil; s.unsure {
		for key, c := range batch.changes {
			c.fresh = false
			batch.changes[key] = c
		}
		return batch
	}
	if !begun {
		s.saved = made
	}
	if made.Transaction != s.saved.Transaction && !made.Filling {
		s.noteLacking(batch, w)
		batch.changes, batch.weight = nil, 0 // they are in the file, but only another transaction makes them durable
	}
	s.saved = made
	return batch
}

// write writes a batch to the file, and returns its writer. The caller holds writing.
func (s *Store[T]) write(batch pending[T]) (w writer[T], err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("write: %w: %.1000s", store.ErrPanic, fmt.Sprint(value)) // of bbolt: see encode
		}
	}()
	if s.unsure {
		if s.saved, err = stateOf(s.file); err != nil {
			return w, err
		}
		s.unsure = false
	}
	// A first list may be large. It may take several transactions while the file has no state to
	// keep.
	none := s.saved.Version == "" && len(s.saved.Scopes) == 0 && (s.saved.Objects == 0 || s.saved.Filling)
	w = writer[T]{codec: s.options.Codec, state: s.saved, clear: s.saved.Filling, lacking: s.lacking, failures: failures{}}
	keys := slices.SortedFunc(maps.Keys(batch.changes), store.Key.Compare)
	for chunk := s.options.chunk; none && len(keys) > chunk; {
		if err := s.update(func(tx *bolt.Tx) error { return w.put(tx, keys[:chunk], batch.changes, nil) }); err != nil {
			return w, err
		}
		s.saved, keys = w.state, keys[chunk:]
	}
	return w, s.update(func(tx *bolt.Tx) error { return w.put(tx, keys, batch.changes, &batch.progress) })
}

// Close writes the pending changes and closes the file, so that another store may open it. After
// that, the store is only a cache: reads and writes work, but no write goes to the file. Close
// returns the errors of the write and of closing; a second call does nothing. End Run before Close,
// or Close ends it.
func (s *Store[T]) Close() error {
	s.stop()
	err := s.transact(true) // without the hook: the caller gets the error, and may be the hook
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.file == nil {
		return nil
	}
	if closing := s.file.Close(); closing != nil {
		err = errors.Join(err, &FileError{s.path, closing})
	}
	s.file = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.state.Lasting = true, false
	if s.state.Err == nil {
		s.state.Err = ErrClosed
	}
	s.wakeLocked()
	return err
}

// pending has the changes for one transaction: the latest state of each object that whole commits
// changed since the last transaction. The zero pending is empty.
type pending[T any] struct {
	changes map[store.Key]change[T]
	// progress has the versions after the last of the commits.
	progress progress
	// commits is the number of commits, and weight the number of their changes. since is the time
	// of the first; zero if there is none.
	commits int
	weight  int
	since   time.Time
}

// change is the new state of one object.
type change[T any] struct {
	object  T
	version store.Version
	gone    bool
	// fresh is true if the file, after all earlier writes, has no record under the key. If the
	// object is deleted again, there is nothing to write.
	fresh bool
}

// progress has the resource versions of a cache and of its partitions.
type progress struct {
	version string
	scopes  map[store.Scope]string
}

// list returns the scopes in order.
func (p progress) list() []scopeState {
	var all []scopeState
	for scope, version := range p.scopes {
		all = append(all, scopeState{Cluster: scope.Cluster, Namespace: scope.Namespace, Version: version})
	}
	slices.SortFunc(all, func(a, b scopeState) int {
		return store.Key{Cluster: a.Cluster, Namespace: a.Namespace}.Compare(store.Key{Cluster: b.Cluster, Namespace: b.Namespace})
	})
	return all
}

// add records one change of a commit.
func (p *pending[T]) add(c *store.Change[T]) {
	p.weight++
	one := change[T]{version: c.Version, gone: c.Type == store.Deletion, fresh: c.Type == store.Addition}
	if !one.gone {
		one.object = c.Object
	}
	p.put(c.Key, one)
}

func (p *pending[T]) put(key store.Key, later change[T]) {
	if p.changes == nil {
		p.changes = make(map[store.Key]change[T])
	}
	if before, ok := p.changes[key]; ok {
		later.fresh = before.fresh
		if later.fresh && later.gone {
			delete(p.changes, key)
			return
		}
	}
	p.changes[key] = later
}

// followedBy merges later changes into p. It reuses the memory of both.
func (p pending[T]) followedBy(later pending[T]) pending[T] {
	for key, c := range later.changes {
		p.put(key, c)
	}
	p.progress = later.progress
	p.commits += later.commits
	p.weight += later.weight
	if p.since.IsZero() {
		p.since = later.since
	}
	return p
}

// writer writes objects in transactions.
type writer[T any] struct {
	codec Codec[T]
	state fileState
	clear bool // the file has objects of a list that was never completed

	// failures are the objects that this writer could not encode. lacking are the objects that
	// earlier writers could not encode.
	failures failures
	lacking  map[store.Key]change[T]

	// records is the number of records written, and bytes their total length.
	records, bytes int
}

// put writes some changes in one transaction, and the versions after them. to is nil if more
// transactions follow.
func (w *writer[T]) put(tx *bolt.Tx, keys []store.Key, changes map[store.Key]change[T], to *progress) error {
	state := w.state
	if w.clear {
		if err := tx.DeleteBucket(objectsBucket); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(objectsBucket); err != nil {
			return err
		}
		state.Objects, state.Sum = 0, 0
	}
	objects := tx.Bucket(objectsBucket)
	if to == nil {
		objects.FillPercent = 0.9 // keys come in order
	}
	for _, key := range keys {
		if err := w.putOne(objects, &state, key, changes[key]); err != nil {
			return fmt.Errorf("write %v: %w", key, err)
		}
	}
	state.Transaction++
	state.Filling = to == nil
	if to != nil {
		state.Version, state.Scopes = to.version, to.list()
		for key, c := range w.lacking {
			if _, again := changes[key]; !again {
				state.without(key, c.version)
			}
		}
		for key := range w.failures {
			state.without(key, changes[key].version)
		}
	}
	if err := put(tx.Bucket(metaBucket), stateKey, state); err != nil {
		return err
	}
	tx.OnCommit(func() { w.state, w.clear = state, false })
	return nil
}

func (w *writer[T]) putOne(objects *bolt.Bucket, state *fileState, key store.Key, c change[T]) error {
	name := keyBytes(key)
	old := objects.Get(name)
	var encoded []byte
	if !c.gone {
		var err error
		if encoded, err = encode(w.codec, c.object); err != nil {
			w.failures[key] = err
			if old == nil || sameObject(old, name, c.version) {
				return nil // an older state is better than none, as in the cache
			}
			c.gone = true
		}
	}
	if old != nil {
		state.Objects--
		state.Sum -= uint64(sumOf(old))
	}
	if c.gone {
		return objects.Delete(name)
	}
	sealed := seal(name, content(c.version, encoded))
	state.Objects++
	state.Sum += uint64(sumOf(sealed))
	w.records++
	w.bytes += len(name) + len(sealed)
	return objects.Put(name, sealed)
}

// sameObject reports whether the record under a key may be an older state of the same object.
func sameObject(sealed, name []byte, version store.Version) bool {
	content, _, ok := unseal(name, sealed)
	written, _, ok2 := contents(content)
	return !ok || !ok2 || written.UID == "" || version.UID == "" || written.UID == version.UID
}

// failures are objects that could not be encoded.
type failures map[store.Key]error

// error returns an [*EncodeError], or nil if there are no failures.
func (f failures) error() error {
	if len(f) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(f)), store.Key.Compare)
	return &EncodeError{Key: first, Err: f[first], More: len(f) - 1}
}

// noteLacking records the objects that the file lacks after a batch was written. The caller holds
// writing.
func (s *Store[T]) noteLacking(batch pending[T], w writer[T]) {
	for key, c := range batch.changes {
		if _, failed := w.failures[key]; !failed {
			delete(s.lacking, key)
			continue
		}
		if s.lacking == nil {
			s.lacking = map[store.Key]change[T]{}
		}
		c.fresh = false
		s.lacking[key] = c
	}
}

// without removes the version of the scope that contains an object which the file lacks. The next
// process then lists that scope. A watch from an older version would deliver the object as well,
// but would first set newer objects back to older states.
func (s *fileState) without(key store.Key, version store.Version) {
	own := false
	for i := range s.Scopes {
		if s.Scopes[i].scope().Contains(key) {
			s.Scopes[i].Version, own = "", true
		}
	}
	if !own {
		s.Version = ""
	}
}

// encode calls the codec's Encode, and turns a panic into an error.
func encode[T any](codec Codec[T], object T) (data []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = discreet.Panicked(value)
		}
	}()
	return codec.Encode(object)
}
