package store

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/memsize"
	"github.com/kubereflector/kubereflector/internal/panicked"
)

// ErrOverBudget means that the cache rejected an object, or ended a list, because it would have taken
// more memory than its [Budget] allows. The error that wraps it has the numbers of bytes.
var ErrOverBudget = errors.New("cache would be over its budget; raise the limit, store less of each object by a Transform, or select fewer")

// maxOverBudget is how many objects of a list a cache with a limit rejects before it ends the list. It
// is bounded, because the list keeps the key and the error of each.
const maxOverBudget = 10_000

// maxLimit and maxSize bound the numbers of a caller, so that no sum of them overflows. No cache is near
// either.
const (
	maxLimit = 1 << 60
	maxSize  = 1 << 40
)

// Budget measures the memory of a cache's objects. With a limit, the cache rejects objects that
// exceed it. Get one from [AddBudget]. All methods are safe for concurrent use.
type Budget[T any] struct {
	size  func(T) int64
	limit int64 // 0 for none
	bytes atomic.Int64

	// pending is the bytes of the objects in pending lists. growing is the bytes of those that are
	// new or larger than the held object. Guarded by Cache.writer.
	pending, growing int64

	// planned is the size of all objects after the staged writes. staged has the size of the object
	// under each key that they write. Guarded by Cache.writer.
	planned int64
	staged  map[Key]int64
}

// AddBudget measures the memory of the objects that a cache holds, from now on and for its life.
// The size function returns the bytes of an object. nil stands for an estimate: it adds up everything
// that the object refers to, as if it shared nothing with other objects, or asks its method
// MemorySize() int64 if it has one. For Kubernetes objects with a Go type, the estimate is within some
// 10 % of the heap; for unstructured ones it is up to a half too high. It takes about half the time of a
// deep copy. The sum leaves out the cache's own parts, about 200 bytes an object, and its indexes.
//
// With a positive limit, the cache rejects an object that would exceed it, with [ErrOverBudget].
// The old object under the key stays, and so does the resource version (store-S5). The cache always
// stores an object that is not larger than its older state, and makes every deletion. In a Replace,
// deletions make room for new objects. The cache evicts no object, even if it is over the limit
// when the caller adds the budget.
//
// A list may come object by object in a [Batch], as from a reflector or through a store of package
// decorate. The cache counts such a list separately until it is complete. All pending lists
// together may use the limit and the current size of the cache, and their new and larger objects
// only the limit. So a list whose state fits is stored whole. The cache rejects and drops objects
// beyond that. After more than 10,000 rejections, for whatever causes, the list fails, even if it never
// ends. Its error wraps [ErrOverBudget] if that was the last cause.
//
// The size function runs under the writer's lock, as index functions do. The cache may call it
// several times for one object. It must be pure and quick. The cache rejects an object on which it
// panics ([ErrPanic]). AddBudget returns an error if the function panics on a held object, or if
// the cache has a budget.
func AddBudget[T any](to Indexable[T], limit int64, size func(T) int64) (*Budget[T], error) {
	if size == nil {
		size = memsize.Of[T]
	}
	b := &Budget[T]{size: size, limit: min(max(limit, 0), maxLimit), staged: map[Key]int64{}}
	c := to.cache()
	c.writer.Lock()
	defer c.writer.Unlock()
	if c.budget != nil {
		return nil, errors.New("cache has a budget already: use that one")
	}
	var bytes int64
	var err error
	c.entries.scan(func(h *header) bool {
		var n int64
		n, err = b.measure(entryOf[T](h).object)
		bytes += n
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	b.bytes.Store(bytes)
	c.budget = b
	return b, nil
}

// Bytes returns the approximate number of bytes that the objects of the cache take.
func (b *Budget[T]) Bytes() int64 { return b.bytes.Load() }

// measure returns the size of an object, at least 0 and at most maxSize.
func (b *Budget[T]) measure(object T) (n int64, err error) {
	defer func() {
		if value := recover(); value != nil {
			n, err = 0, panicked.Error(value)
		}
	}()
	return min(max(b.size(object), 0), maxSize), nil
}

// of returns the size of an entry; 0 for nil. The write measured it before, so an error cannot occur.
func (b *Budget[T]) of(e *entry[T]) int64 {
	if e == nil {
		return 0
	}
	n, _ := b.measure(e.object)
	return n
}

// begin forgets the staged writes.
func (b *Budget[T]) begin() {
	b.planned = b.bytes.Load()
	if len(b.staged) > maxScratch {
		b.staged = map[Key]int64{} // a map never shrinks
		return
	}
	clear(b.staged)
}

// admit stages an object, or returns why it cannot be stored.
func (b *Budget[T]) admit(c *Cache[T], key Key, object T) error {
	n, err := b.measure(object)
	if err != nil || b.limit == 0 {
		return err
	}
	was := b.was(c, key)
	if n > was && b.planned+n-was > b.limit {
		return overBudget(b.planned, n-was, b.limit)
	}
	b.planned += n - was
	b.staged[key] = n
	return nil
}

// leave stages the deletion of a key.
func (b *Budget[T]) leave(c *Cache[T], key Key) {
	if b.limit == 0 {
		return
	}
	b.planned -= b.was(c, key)
	b.staged[key] = 0
}

// was returns the size of the object under a key after the staged writes; 0 for none.
func (b *Budget[T]) was(c *Cache[T], key Key) int64 {
	if n, ok := b.staged[key]; ok {
		return n
	}
	return b.of(c.table.entry(key))
}

// committed counts the mutations of a commit.
func (b *Budget[T]) committed(mutations []mutation[T]) {
	for i := range mutations {
		b.bytes.Add(b.of(mutations[i].after) - b.of(mutations[i].before))
	}
}

// gather counts an object of a pending list, and sets its share. held is the entry under its key,
// or nil. The caller holds writer.
func (b *Budget[T]) gather(w *identified[T], held *entry[T]) error {
	n, err := b.measure(w.object)
	if err != nil {
		return nil // the commit rejects it
	}
	grows := n > b.of(held)
	if grows && b.growing+n > b.limit {
		return overBudget(b.growing, n, b.limit)
	}
	if allowed := b.limit + b.bytes.Load(); b.pending+n > allowed {
		return overBudget(b.pending, n, allowed)
	}
	w.share, w.grows = n, grows
	b.count(w, n)
	return nil
}

// count adds n bytes to the sums that the share of a write is in. The caller holds writer.
func (b *Budget[T]) count(w *identified[T], n int64) {
	b.pending += n
	if w.grows {
		b.growing += n
	}
}

// overBudget returns the error for an object of n bytes that would exceed a limit.
func overBudget(bytes, n, limit int64) error {
	return fmt.Errorf("%w: about %d bytes are held, %d with this object, and %d are allowed", ErrOverBudget, bytes, bytes+n, limit)
}
