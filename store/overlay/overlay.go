package overlay

import (
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultLife is how long an overlay shows a write if the cache does not catch up with it.
const DefaultLife = time.Minute

// ErrNoUID means that a written object has no UID. Without one, the overlay cannot find out whether
// the object was deleted since. Pass the object as the API server returned it.
var ErrNoUID = errors.New("object has no UID: pass it as the API server returned it")

// Object is the constraint for the objects of an overlay. Every Kubernetes object fulfils it.
type Object interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// Source is the cache under an overlay: a [store.Cache], or the [store.View] of one, such as the
// view of an informer.
type Source[T any] interface {
	store.Reader[T]
	store.Indexable[T]
	await.Cache[T]
	Snapshot() *store.Snapshot[T]
}

var (
	_ Source[Object] = (*store.Cache[Object])(nil)
	_ Source[Object] = (*store.View[Object])(nil)
)

// Overlay reads a cache together with written objects that the cache does not have yet. See the
// package documentation for its guarantees.
//
// Create one with [New]. All methods are safe for concurrent use.
type Overlay[T Object] struct {
	of   Source[T]
	life time.Duration
	stop func()

	// pending is the number of writes. It changes under mu, and readers load it without mu.
	pending atomic.Int64

	// mu protects the fields below it. The writer of the cache takes it inside its own lock. A
	// holder of mu may read the cache, and runs no user function.
	mu     sync.Mutex
	writes map[store.Key]*write[T]
	due    time.Time // no write ends before
	told   told
	closed bool
}

var _ store.Reader[Object] = (*Overlay[Object])(nil)

// write is a written object that the cache may not have yet.
type write[T any] struct {
	key     store.Key
	object  T
	version store.Version
	until   time.Time
	// held is true if the cache held this object, by UID, when the program reported the write. If
	// the cache no longer holds it, the object was deleted.
	held bool
}

// New returns an overlay over a cache. It shows a write for at most the given life; [DefaultLife]
// if life is not positive. It follows the cache until Close.
func New[T Object](of Source[T], life time.Duration) *Overlay[T] {
	if life <= 0 {
		life = DefaultLife
	}
	o := &Overlay[T]{of: of, life: life, writes: map[store.Key]*write[T]{}}
	o.stop = of.Follow((*follower[T])(o))
	return o
}

// Close stops following the cache, and forgets all writes: the overlay then shows only the cache.
// Do not call it from a follower of that cache.
func (o *Overlay[T]) Close() {
	o.stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.clearLocked()
}

// Wrote shows an object, as the API server returned it from a create, an update or a patch, until
// the cache has caught up with it. It does nothing if the cache or an earlier call has a newer
// state.
//
// It returns an error, and does not show the object, if it cannot compare the object. The error is
// a [*await.Error] if the object has no key, no resource version that is a number, or no
// partition in a cache with partitions. It is [ErrNoUID] if the object has no UID.
func (o *Overlay[T]) Wrote(object T) error { return o.WroteIn("", object) }

// WroteIn is [Overlay.Wrote] for an object of the given cluster. It is for a KeyFunc that does not
// know the cluster.
func (o *Overlay[T]) WroteIn(cluster string, object T) error {
	key, err := o.of.KeyOf(object)
	if err != nil {
		return err
	}
	if key.Cluster == "" {
		key.Cluster = cluster
	}
	w := &write[T]{key: key, object: object, version: store.VersionOf(object)}
	if w.version.UID == "" {
		return ErrNoUID
	}
	// Without mu, because it calls the KeyFunc. If a commit comes before the lock, told has it.
	if seen, err := o.seen(w); err != nil || seen {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweepLocked()
	if o.closed || o.told.of(key, w.version) {
		return nil
	}
	held, ok := o.of.Get(key)
	if ok && reached(store.VersionOf(held).ResourceVersion, w.version.ResourceVersion) {
		return nil
	}
	if other := o.writes[key]; other != nil && reached(other.version.ResourceVersion, w.version.ResourceVersion) {
		return nil
	}
	w.held = ok && store.VersionOf(held).UID == w.version.UID
	w.until = time.Now().Add(o.life)
	o.writes[key] = w
	o.pending.Store(int64(len(o.writes)))
	return nil
}

// Pending returns the number of writes that the cache may not show yet.
func (o *Overlay[T]) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweepLocked()
	return len(o.writes)
}

// seen reports whether the cache has received every change up to a write, in the partition of its
// object.
func (o *Overlay[T]) seen(w *write[T]) (bool, error) {
	return await.Shown(o.of, w.key.Cluster, w.object)
}

// newerLocked reports whether a write is newer than the object of a state of the cache, or a
// missing object there. If not, it forgets the write.
func (o *Overlay[T]) newerLocked(w *write[T], held T, ok bool) bool {
	older := ok && reached(store.VersionOf(held).ResourceVersion, w.version.ResourceVersion)
	deleted := w.held && (!ok || store.VersionOf(held).UID != w.version.UID)
	if older || deleted || w.over() {
		o.forgetLocked(w)
		return false
	}
	return true
}

func (w *write[T]) over() bool { return !time.Now().Before(w.until) }

func (o *Overlay[T]) forgetLocked(w *write[T]) {
	if o.writes[w.key] == w {
		delete(o.writes, w.key)
		o.pending.Store(int64(len(o.writes)))
	}
}

// sweepLocked forgets writes whose life is over. It looks at the writes only if the life of one may
// be over.
func (o *Overlay[T]) sweepLocked() {
	if len(o.writes) == 0 {
		return
	}
	now := time.Now()
	if now.Before(o.due) {
		return
	}
	o.due = now.Add(o.life) // the earliest possible end of a write
	for _, w := range o.writes {
		if w.over() {
			o.forgetLocked(w)
		} else if w.until.Before(o.due) {
			o.due = w.until
		}
	}
}

func (o *Overlay[T]) clearLocked() {
	clear(o.writes)
	o.pending.Store(0)
}

// Get implements [store.Reader].
func (o *Overlay[T]) Get(key store.Key) (T, bool) {
	if o.pending.Load() == 0 {
		return o.of.Get(key)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	held, ok := o.of.Get(key)
	if w := o.writes[key]; w != nil && o.newerLocked(w, held, ok) {
		return w.object, true
	}
	return held, ok
}

// pin returns a state of the cache, and the newer writes in the order of keys.
func (o *Overlay[T]) pin() (*store.Snapshot[T], []*write[T]) {
	if o.pending.Load() == 0 {
		return o.of.Snapshot(), nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	// Under mu, so that this state has every write that the overlay has forgotten.
	state := o.of.Snapshot()
	var newer []*write[T]
	for key, w := range o.writes {
		if held, ok := state.Get(key); o.newerLocked(w, held, ok) {
			newer = append(newer, w)
		}
	}
	slices.SortFunc(newer, func(a, b *write[T]) int { return a.key.Compare(b.key) })
	return state, newer
}

// merge iterates over objects of the cache and the wanted writes, in the order of keys. It leaves
// out a cached object if any write has its key.
func merge[T any](cached iter.Seq2[store.Key, T], writes []*write[T], wanted func(*write[T]) bool, yield func(store.Key, T) bool) {
	for key, object := range cached {
		for len(writes) > 0 && writes[0].key.Compare(key) < 0 {
			if w := writes[0]; wanted(w) && !yield(w.key, w.object) {
				return
			}
			writes = writes[1:]
		}
		if len(writes) > 0 && writes[0].key == key {
			continue // the write comes next, if wanted
		}
		if !yield(key, object) {
			return
		}
	}
	for _, w := range writes {
		if wanted(w) && !yield(w.key, w.object) {
			return
		}
	}
}

// All implements [store.Reader].
func (o *Overlay[T]) All() iter.Seq2[store.Key, T] {
	return func(yield func(store.Key, T) bool) {
		state, writes := o.pin()
		merge(state.All(), writes, func(*write[T]) bool { return true }, yield)
	}
}

// Namespace implements [store.Reader].
func (o *Overlay[T]) Namespace(namespace string) iter.Seq2[store.Key, T] {
	return func(yield func(store.Key, T) bool) {
		state, writes := o.pin()
		merge(state.Namespace(namespace), writes, func(w *write[T]) bool { return w.key.Namespace == namespace }, yield)
	}
}

// Len implements [store.Reader].
func (o *Overlay[T]) Len() int {
	state, writes := o.pin()
	n := state.Len()
	for _, w := range writes {
		if _, ok := state.Get(w.key); !ok {
			n++
		}
	}
	return n
}

// ResourceVersion implements [store.Reader]. It is the version of the cache: pending writes may be
// newer.
func (o *Overlay[T]) ResourceVersion() string { return o.of.ResourceVersion() }
