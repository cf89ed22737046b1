package store

import (
	"slices"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

type podCache = Cache[*corev1.Pod]

// openWith returns a cache that was listed at a resource version.
func openWith(t *testing.T, resourceVersion string, objects ...*corev1.Pod) *podCache {
	t.Helper()
	c := newPods()
	require.NoError(t, c.Replace(objects, resourceVersion))
	return c
}

// apply makes writes one commit.
func apply(to Store[*corev1.Pod], all ...Write[*corev1.Pod]) error {
	return (&writes[*corev1.Pod]{all: all}).to(to)
}

func adding(object *corev1.Pod) Write[*corev1.Pod] {
	return Write[*corev1.Pod]{Type: Addition, Object: object}
}

func deleting(object *corev1.Pod) Write[*corev1.Pod] {
	return Write[*corev1.Pod]{Type: Deletion, Object: object, FinalStateKnown: true}
}

// nameless returns an object that every cache rejects.
func nameless(resourceVersion string) *corev1.Pod { return pod("n", "", "nameless", resourceVersion) }

// observed returns the observed resource versions of the commits that a follower got.
func observed(r *recorder) (all []string) {
	for _, commit := range r.commits {
		all = append(all, commit.ObservedVersion)
	}
	return all
}

// indexed adds an index by fn, and returns a function that counts the values the index knows.
func indexed(t *testing.T, c *podCache, fn func(*corev1.Pod) []string) (values func() int) {
	t.Helper()
	index, err := AddIndex(c, "index", fn)
	require.NoError(t, err)
	return func() int { return len(index.indexer.known) }
}

// snapshots counts the snapshots that were made of a cache.
func snapshots[T any](c *Cache[T]) uint64 { return c.epoch }

// limited returns a cache with a budget, and the bytes of the lists under way.
func limited(t *testing.T, limit int64) (c *podCache, gathered func() int64) {
	t.Helper()
	c, b := budgeted(t, limit)
	return c, func() int64 { return b.pending }
}

// begun gives objects to a new batch that replaces everything, until it ends the list.
func begun(to Store[*corev1.Pod], objects ...*corev1.Pod) (Batch[*corev1.Pod], error) {
	batch, _ := begin(to, true)
	return batch, list[*corev1.Pod]{Objects: objects}.write(batch)
}

// followAndStop adds a last follower and removes it. The pointer does not keep the follower.
func followAndStop(c *podCache) weak.Pointer[recorder] {
	r := new(recorder)
	stop := c.Follow(r)
	stop()
	return weak.Make(r)
}

// begin starts a batch of a store that has batches.
func begin[T any](s Store[T], replace bool) (Batch[T], bool) {
	b := s.(BatchStore[T]).BeginBatch(s, replace)
	return b, b != nil
}

// writes is a batch that is written down before it is made.
type writes[T any] struct {
	all     []Write[T]
	version string
}

func (b *writes[T]) Add(object T)    { b.Append(Write[T]{Type: Addition, Object: object}) }
func (b *writes[T]) Update(object T) { b.Append(Write[T]{Type: Modification, Object: object}) }
func (b *writes[T]) Delete(object T) {
	b.Append(Write[T]{Type: Deletion, Object: object, FinalStateKnown: true})
}
func (b *writes[T]) DeleteKey(key Key) { b.Append(Write[T]{Type: Deletion, Key: key}) }

func (b *writes[T]) Fail(r Rejection) {
	b.Append(Write[T]{Key: r.Key, Version: r.Version, Err: r.Err})
}

func (b *writes[T]) Bookmark(resourceVersion string) { b.version = resourceVersion }
func (b *writes[T]) Append(w Write[T])               { b.all = append(b.all, w) }
func (b *writes[T]) Reset()                          { *b = writes[T]{} }

// to makes the writes one commit.
func (b *writes[T]) to(s Store[T]) error {
	batch, _ := begin(s, false)
	for _, w := range b.all {
		if err := batch.Write(w); err != nil {
			return err
		}
	}
	return batch.Commit(b.version)
}

// list is a list of an API server. Of one key, what is further down counts.
type list[T any] struct {
	Unchanged       []Key
	Objects         []T
	Told            []Write[T] // of the objects: keys and versions
	Failed          []Rejection
	ResourceVersion string
}

// to makes the list what a store holds.
func (l list[T]) to(s Store[T]) error {
	batch, _ := begin(s, true)
	if err := l.write(batch); err != nil {
		return err
	}
	return batch.Commit(l.ResourceVersion)
}

func (l list[T]) write(batch Batch[T]) error {
	for _, key := range l.Unchanged {
		batch.Keep(key)
	}
	for i, object := range l.Objects {
		w := Write[T]{}
		if i < len(l.Told) {
			w = l.Told[i]
		}
		w.Type, w.Object = Addition, object
		if err := batch.Write(w); err != nil {
			return err
		}
	}
	for _, r := range l.Failed {
		if err := batch.Write(Write[T]{Key: r.Key, Version: r.Version, Err: r.Err}); err != nil {
			return err
		}
	}
	return nil
}

// untilBreak returns how many objects an iteration yields to a body that breaks at once.
func untilBreak[T any](seq func(func(Key, T) bool)) (n int) {
	for range seq {
		n++
		break
	}
	return n
}

// reading runs each function in goroutines of its own, again and again, until stop is called or the
// function returns false.
func reading(goroutines int, reads ...func() bool) (stop func()) {
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, read := range reads {
		for range goroutines {
			readers.Go(func() {
				for read() {
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
	}
	return func() { close(done); readers.Wait() }
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// applied makes a batch of writes and returns its changes, as a follower receives them.
func applied[T any](c *Cache[T], batch *writes[T]) ([]Change[T], error) {
	var told collector[T]
	stop := c.Follow(&told)
	defer stop()
	err := batch.to(c)
	return told.changes, err
}

// collector is a follower that keeps all changes.
type collector[T any] struct{ changes []Change[T] }

func (*collector[T]) Start(*Snapshot[T])         {}
func (f *collector[T]) Commit(commit *Commit[T]) { f.changes = append(f.changes, commit.Changes...) }

// checkCache walks everything that a cache holds between two commits and fails
// if two parts of it say different things.
func checkCache[T any](t require.TestingT, c *Cache[T]) {
	c.writer.Lock()
	defer c.writer.Unlock()
	c.mu.RLock()
	defer c.mu.RUnlock()

	shelved := 0
	count := func(of space, s *nsMap[T]) {
		require.NotEmpty(t, s.objects, "an empty namespace is not kept")
		require.Equal(t, of, *s.space)
		require.False(t, s.gone)
		for name, held := range s.objects {
			e := entryOf[T](c.entries.get(&header{space: s.space, name: name}, nil))
			require.NotNil(t, e)
			require.Same(t, s.space, e.space)
			require.Equal(t, held.object, e.object)
			require.Same(t, held.entry, e)
		}
		shelved += len(s.objects)
	}
	for namespace, s := range c.table.home {
		count(space{"", namespace}, s)
	}
	for of, s := range c.table.clusters {
		count(of, s)
	}
	require.Equal(t, c.table.len, shelved)
	require.Equal(t, c.table.len, c.entries.len())

	var last *entry[T]
	c.entries.scan(func(h *header) bool {
		e := entryOf[T](h)
		require.True(t, last == nil || last.key().Compare(e.key()) < 0, "in order")
		require.LessOrEqual(t, e.epoch, c.epoch)
		require.True(t, slices.IsSortedFunc(e.terms(), func(a, b *term) int {
			if a.index != b.index {
				return int(a.index - b.index)
			}
			return int(a.seq) - int(b.seq)
		}), "terms of %v: %v", e.key(), e.terms())
		for _, found := range e.terms() {
			require.Zero(t, found.next, "only load uses it")
		}
		last = e
		return true
	})

	for i, x := range c.indexes {
		require.EqualValues(t, i, x.position)
	}
	require.Nil(t, c.frozen)
	for _, free := range c.scratch.entries {
		require.Zero(t, *free, "a free entry refers to nothing")
	}
	for _, taken := range c.scratch.entries[len(c.scratch.entries):cap(c.scratch.entries)] {
		require.Nil(t, taken, "an entry in use is not kept in memory after its deletion")
	}
	for _, left := range c.scratch.mutations[:cap(c.scratch.mutations)] {
		require.Zero(t, left, "memory for the next commit refers to nothing")
	}
	for _, left := range c.scratch.commit.Changes[:cap(c.scratch.commit.Changes)] {
		require.Zero(t, left.Key)
	}
}

// checkIndex holds an index to what its function says about each object.
func checkIndex[I comparable, T any](t require.TestingT, r *Index[I, T]) {
	c := r.of
	c.writer.Lock()
	defer c.writer.Unlock()
	c.mu.RLock()
	defer c.mu.RUnlock()

	uses := map[*term]int{}
	postings := 0
	c.entries.scan(func(h *header) bool {
		e := entryOf[T](h)
		var values []I
		for _, term := range e.section(r.indexer.position) {
			uses[term]++
			postings++
			values = append(values, valueOf[I](term))
			found, ok := postingsOf(r.indexer.tree).Get(posting{term, h})
			require.True(t, ok, "no posting of %v for %v", term.value, e.key())
			require.Same(t, h, found.entry)
			require.Same(t, term, found.term)
			require.Same(t, r.indexer.known[valueOf[I](term)], term)
		}
		require.ElementsMatch(t, distinct(r.indexer.values(e.object)), values, "values of %v", e.key())
		return true
	})
	require.Equal(t, postings, postingsOf(r.indexer.tree).Len(), "the tree has what the entries have, and no more")
	require.Len(t, r.indexer.known, len(uses), "a value that nothing has is forgotten")
	for term, n := range uses {
		require.Equal(t, n, term.uses, "uses of %v", term.value)
	}
}

// distinct returns the values that are equal to themselves, each once.
func distinct[I comparable](values []I) (all []I) {
	for _, value := range values {
		if value == value && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

// checkQuiet fails if the cache still has a waiter or a watch.
func checkQuiet[T any](t require.TestingT, c *Cache[T]) {
	c.loops.mu.Lock()
	defer c.loops.mu.Unlock()
	require.Empty(t, c.loops.all)
}
