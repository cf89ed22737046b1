package store

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/store/memsize"
)

// ErrOverBudget means that the cache rejected an object, or ended a list, because it would have taken
// more memory than its [Budget] allows. The error that wraps it has the numbers of bytes.
var ErrOverBudget = errors.New("cache would be over its budget; raise the limit, store less of each object by a Transform, or select fewer")

// maxOverBudget is how many objects of a list a [Budget] rejects before it ends the list: each is
// remembered by its key.
const maxOverBudget = 10_000

// Budget knows about how much memory the objects of a cache take, and refuses what is too
// much. Get one from [AddBudget]. All methods are safe for concurrent use.
type Budget[T any] struct {
	size  func(T) int64
	limit int64 // 0 for none
	bytes atomic.Int64

	// fresh and same are the bytes that lists which are under way hold: of objects that are new
	// or grew, and of the others. Guarded by Cache.writer.
	fresh, same int64

	// planned is what the objects will take after the writes that were staged, and staged
	// what those of single keys will. Guarded by Cache.writer.
	planned int64
	staged  map[Key]int64
}

// AddBudget counts the memory of what a cache holds, from now on and for its life, as a
// size function says that an object takes it, in bytes; nil is [memsize.Of]. The cache's own
// parts, some 180 bytes an object, are not in it, nor what its indexes take.
//
// With a positive limit, a write that would make more of it than that is refused: the
// object is rejected with [ErrOverBudget], what was held under its key stays, the resource
// version stays before it (store-S5), and so whoever fills the cache has an error to tell. An
// object of the same size as its older state, or a smaller one, is always taken, as is
// every deletion; of a list, what goes makes room for what comes. Nothing that is held is
// thrown out, also if it is over the limit already.
//
// The cache counts a list that comes in a [Batch], as from a reflector or through a store of package
// decorate, separately until the list is complete. All pending
// lists share two allowances: new and larger objects may use up to the limit, unchanged and
// smaller ones up to the current size of the cache. So a list whose state fits is stored whole.
// The cache rejects and drops objects beyond the allowances. After more than 10,000 rejections
// the list fails with an error that wraps [ErrOverBudget], even if it would never end.
//
// The function runs under the writer's lock, as index functions do. The cache may call it
// several times for one object. It must be pure and quick. An object on which it panics is rejected ([ErrPanic]); so is AddBudget if it panics on what
// is held, or if the cache has a budget.
func AddBudget[T any](to Indexable[T], limit int64, size func(T) int64) (*Budget[T], error) {
	if size == nil {
		size = memsize.Of[T]
	}
	b := &Budget[T]{size: size, limit: max(limit, 0), staged: map[Key]int64{}}
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

// Bytes returns about how many bytes the objects take that are held now.
func (b *Budget[T]) Bytes() int64 { return b.bytes.Load() }

func (b *Budget[T]) measure(object T) (n int64, err error) {
	defer func() {
		if value := recover(); value != nil {
			n, err = 0, recovered(value)
		}
	}()
	return b.size(object), nil
}

// of returns the size of an entry, 0 for none. It was measured before, when it came.
func (b *Budget[T]) of(e *entry[T]) int64 {
	if e == nil {
		return 0
	}
	n, _ := b.measure(e.object)
	return n
}

// begin forgets what was staged. A nil budget allows everything and counts nothing.
func (b *Budget[T]) begin() {
	if b == nil {
		return
	}
	b.planned = b.bytes.Load()
	if len(b.staged) > maxScratch {
		b.staged = map[Key]int64{} // that of a list would stay as large for ever
		return
	}
	clear(b.staged)
}

// admit stages an object, or returns why it cannot be stored.
func (b *Budget[T]) admit(c *Cache[T], key Key, object T) error {
	if b == nil {
		return nil
	}
	n, err := b.measure(object)
	if err != nil || b.limit == 0 {
		return err
	}
	was := b.was(c, key)
	if with := b.planned + n - was; n > was && with > b.limit {
		return b.over(b.planned, with)
	}
	b.planned += n - was
	b.staged[key] = n
	return nil
}

// over returns the error of an object with which the cache would hold more than the limit.
func (b *Budget[T]) over(bytes, with int64) error {
	return fmt.Errorf("%w: about %d bytes are held, %d with this object, and %d are allowed", ErrOverBudget, bytes, with, b.limit)
}

// leave stages that nothing is held under a key any more.
func (b *Budget[T]) leave(c *Cache[T], key Key) {
	if b == nil || b.limit == 0 {
		return
	}
	b.planned -= b.was(c, key)
	b.staged[key] = 0
}

// was returns the size of what will be held under a key without another write.
func (b *Budget[T]) was(c *Cache[T], key Key) int64 {
	if n, ok := b.staged[key]; ok {
		return n
	}
	object, held := c.table.get(key)
	if !held {
		return 0
	}
	n, _ := b.measure(object)
	return n
}

// committed counts the mutations of a commit, also those after one for which the size function
// ends the goroutine.
func (b *Budget[T]) committed(mutations []mutation[T]) {
	if b == nil {
		return
	}
	done := 0
	defer func() {
		if done < len(mutations) {
			b.committed(mutations[done:])
		}
	}()
	for done < len(mutations) {
		e := &mutations[done]
		done++
		b.bytes.Add(b.of(e.new) - b.of(e.old))
	}
}

// gather counts an object of a list that is under way, and returns its share: positive if it is new
// or grew, negative if not. The caller holds writer.
func (b *Budget[T]) gather(c *Cache[T], key Key, object T) (share int64, err error) {
	n, err := b.measure(object)
	if err != nil {
		return 0, nil // the commit rejects it
	}
	if held, ok := c.table.get(key); ok {
		if was, _ := b.measure(held); n <= was && b.same+n <= b.bytes.Load() {
			b.same += n
			return -n, nil
		}
	}
	if with := b.fresh + n; with > b.limit {
		return 0, b.over(b.fresh, with)
	}
	b.fresh += n
	return n, nil
}

// giveBack takes back the share of an object. The caller holds writer.
func (b *Budget[T]) giveBack(share int64) {
	if share < 0 {
		b.same += share
	} else {
		b.fresh -= share
	}
}
