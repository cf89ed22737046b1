package eventqueue

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// WithPriority sets whether objects with live events come first: see Order in the package
// documentation. The default is yes.
func WithPriority(on bool) Option {
	return optionFunc(func(o *options) { o.priority = on })
}

// WithBackoff sets the back-off of failed keys. A key waits about base after the first failure, and
// twice as long after each further one, but never more than limit. The defaults are 100 ms and one
// minute; values that are not positive leave them, and a century is the longest. Each wait is drawn at
// random from the upper half of that time, so that keys that failed together are not retried together.
// No limit counts the retries of all keys together, as client-go's default rate limiter does (ten a second):
// the workers bound them.
func WithBackoff(base, limit time.Duration) Option {
	return optionFunc(func(o *options) {
		if base > 0 {
			o.backoff.base = min(base, maxDelay)
		}
		if limit > 0 {
			o.backoff.limit = min(limit, maxDelay)
		}
	})
}

func (c *Collection[T]) emptyRings() {
	for i := range c.ready {
		ring := &c.ready[i]
		ring.next, ring.prev = ring, ring
	}
}

// ringOf returns the ring in which a key waits: the second one if it has no live event and live
// events come first, and else the first one.
func (c *Collection[T]) ringOf(k *keyState[T]) *turn[T] {
	if c.priority && !k.waiting.live {
		return &c.ready[1]
	}
	return &c.ready[0]
}

// readyLocked puts a key behind all others that are ready, if it is not there yet.
func (c *Collection[T]) readyLocked(k *keyState[T]) {
	if k.turn.ring == nil {
		ring := c.ringOf(k)
		k.link(ring, ring)
	}
}

// reclassLocked moves a ready key to the end of the ring where it belongs. It does nothing if the
// key is already in that ring or has no turn.
func (c *Collection[T]) reclassLocked(k *keyState[T]) {
	if ring := c.ringOf(k); k.turn.ring != nil && k.turn.ring != ring {
		k.unlink()
		k.link(ring, ring)
	}
}

// returnLocked gives a key, whose queue came back, the turn that it missed while the queue was out. The key
// comes in front of its ring, but behind the keys whose turn came earlier.
func (c *Collection[T]) returnLocked(k *keyState[T]) {
	c.reclassLocked(k)
	if k.turn.passed == 0 || k.turn.next != nil {
		return
	}
	next := k.turn.ring.next
	for next.passed != 0 && next.passed < k.turn.passed {
		next = next.next
	}
	k.link(next, k.turn.ring)
}

// idleLocked reports whether nothing is ready or out.
func (c *Collection[T]) idleLocked() bool {
	return c.IsClosed() || c.counters.InFlight == 0 &&
		c.ready[0].next == &c.ready[0] && c.ready[1].next == &c.ready[1]
}

// turn is the place of a key in a ring of ready keys. The head of a ring is a turn without a key.
type turn[T any] struct {
	// next and prev are nil while the key is not in a ring. If an event comes while the key is out,
	// the key is linked at once, so that it keeps its place.
	next, prev *turn[T]
	key        *keyState[T]

	// ring is the head of the ring that the key is in, or will be in again because of passed; nil if the
	// key has no turn.
	ring *turn[T]

	// passed is not 0 if the key's turn came while the key was out; a smaller value means an
	// earlier turn. The key is then unlinked until its queue is back, so that consumers pass it
	// over only once. It is 1 for a key that its consumer released, so before every turn.
	passed uint64
}

// link puts a key that is not linked into a ring, before a turn. The head is the end of a ring.
func (k *keyState[T]) link(before, ring *turn[T]) {
	p := &k.turn
	p.next, p.prev, p.key, p.ring = before, before.prev, k, ring
	p.prev.next, p.next.prev = p, p
}

// unlink takes the key's turn away, if it has one.
func (k *keyState[T]) unlink() {
	if p := &k.turn; p.next != nil {
		p.prev.next, p.next.prev = p.next, p.prev
	}
	k.turn = turn[T]{}
}

// Add queues a key in a collection of keys, which is a work queue; the package documentation shows one.
// The key is live, which means that something has changed: it comes before those of [AddResync]. The event
// is a Modification of origin [Watch]. Add is a function, because a method would exist for collections of
// objects too, where an event needs an object and its prior state.
//
// A key waits once. A key that is out waits until its queue is settled. While the key is in back-off, Add
// ends the back-off early, but only once (queue-E11). Add does not write to the collection's cache, and
// does nothing after [Collection.Close].
func Add(c *Collection[store.Key], key store.Key) { addKey(c, key, 0, Watch) }

// AddResync is [Add] for a key of which nothing is known to have changed, such as that of an object of a
// first list or of a resync. Its event has origin [Resync], and it waits for the end of a back-off. A key
// that is live stays live.
func AddResync(c *Collection[store.Key], key store.Key) { addKey(c, key, 0, Resync) }

// AddAfter queues a key when a delay is over, as [Add] does at once. The key is live, so that it is not
// late because many keys of a first list wait. If the key waits already, the earliest end of all
// delays counts. A delay that is over before the key's back-off ends the back-off, as a live key does.
func AddAfter(c *Collection[store.Key], key store.Key, delay time.Duration) {
	addKey(c, key, delay, Watch)
}

// addKey implements Add, AddResync and AddAfter. A key of origin Watch is live.
func addKey(c *Collection[store.Key], key store.Key, delay time.Duration, origin Origin) {
	c.lockAndQueue()
	defer c.mu.Unlock()
	if c.IsClosed() {
		return
	}
	live := origin == Watch
	k, due := c.stateLocked(key), now()+min(max(delay, 0), maxDelay)
	b := &k.waiting
	if !k.waits() {
		c.joinLocked(k, &record[store.Key]{Event: Event[store.Key]{
			Type: Modification, Origin: origin, Key: key, Prior: key, PriorKnown: true, Object: key,
		}}, due)
	} else {
		c.counters.Merged++
		b.merged++
		b.since = min(b.since, due)
	}
	if live && !b.live {
		b.live = true
		b.events[len(b.events)-1].Origin = origin
		c.reclassLocked(k)
	}
	switch {
	case k.backsOff() && (k.fixed || delay <= 0 && !live):
		// The end of the back-off stays: it is fixed, or nothing is known to have changed.
	case delay > 0:
		c.delayLocked(k, due)
	default:
		c.delayed.remove(k)
		c.readyLocked(k)
		c.signalLocked()
	}
}

// maxDelay bounds delays, so that the sum of a time and the largest Duration is no earlier time.
const maxDelay = 100 * 365 * 24 * time.Hour

// backoff is how long a key waits after it failed.
type backoff struct{ base, limit time.Duration }

// delay returns the wait after the given number of failures in a row, which is at least 1.
func (b backoff) delay(failures int) time.Duration {
	d := b.base
	for range failures - 1 {
		if d >= b.limit/2 {
			d = b.limit
			break
		}
		d *= 2
	}
	d = min(d, b.limit)
	return d/2 + rand.N(d/2+1)
}

// retry says when a key comes again after a failure.
type retry struct {
	wait  time.Duration // the back-off, from now on
	least time.Duration // what a server asked for with the error; else 0. No event shortens it
	// hastened is true if an event brought the failed attempt forward: wait is the rest of the back-off
	// before, whose end stays.
	hastened bool
}

// retryOf returns the retry after a failure of a queue. It takes no lock, because the error's methods
// are user code.
func (q *Queue[T]) retryOf(err error) retry {
	r := retry{wait: q.backoffEnd - now(), least: retryAfter(err)}
	if r.hastened = q.attempt > 1 && r.wait > 0; !r.hastened {
		r.wait = q.collection.backoff.delay(q.Attempt())
	}
	r.wait = max(r.wait, r.least)
	return r
}

// maxRetryAfter bounds the Retry-After of a server, as a wrong value must not stop a key for a day.
const maxRetryAfter = 10 * time.Minute

// retryAfter returns the wait that an API server asked for with an error, and up to a tenth more,
// lest all keys come back at the same moment. It returns 0 if the server asked for none.
func retryAfter(err error) time.Duration {
	seconds := longestDelay(err)
	if seconds <= 0 {
		return 0
	}
	wait := time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	return min(wait+rand.N(wait/10), maxRetryAfter)
}

// longestDelay returns the longest delay, in seconds, that an error of a server in err suggests.
// SuggestsClientDelay knows only the first of several joined errors.
func longestDelay(err error) (seconds int) {
	if err == nil {
		return 0
	}
	seconds, _ = apierrors.SuggestsClientDelay(err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		seconds = max(seconds, longestDelay(e.Unwrap()))
	case interface{ Unwrap() []error }:
		for _, cause := range e.Unwrap() {
			seconds = max(seconds, longestDelay(cause))
		}
	}
	return seconds
}

// backsOff reports whether a failed key waits for the end of its back-off, or for a delay that ends
// earlier.
func (k *keyState[T]) backsOff() bool { return k.failures > 0 && k.out == nil && k.heapIndex >= 0 }

// mayHasten reports whether an event may make a key ready before its time. An event shortens each
// back-off only once: without that bound, an object that changes all the time, perhaps by the failing
// handler itself, would be retried without any back-off.
func (k *keyState[T]) mayHasten() bool { return !k.backsOff() || !k.fixed }

// delayLocked makes a key wait until it is due, unless it is ready or due earlier.
func (c *Collection[T]) delayLocked(k *keyState[T], due time.Duration) {
	if k.turn.ring != nil || k.heapIndex >= 0 && k.due <= due {
		return
	}
	c.delayed.remove(k)
	k.due = due
	heap.Push(&c.delayed, k)
	if k.heapIndex == 0 {
		c.setTimerLocked()
	}
}

// setTimerLocked makes the timer fire when the first delayed key is due.
func (c *Collection[T]) setTimerLocked() {
	if len(c.delayed) == 0 {
		return
	}
	wait := c.delayed[0].due - now()
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, c.readyDue)
	} else {
		c.timer.Reset(wait)
	}
}

// readyDue makes the keys ready that are due.
func (c *Collection[T]) readyDue() {
	c.lockAndQueue()
	defer c.mu.Unlock()
	over := now()
	for len(c.delayed) > 0 && c.delayed[0].due <= over {
		k := c.delayed[0]
		c.delayed.remove(k)
		c.readyLocked(k)
	}
	c.setTimerLocked()
	c.signalLocked()
}

// delayed is a heap of the keys that wait for a back-off or a delay, ordered by due time.
type delayed[T any] []*keyState[T]

// remove removes a key, if it is in the heap.
func (d *delayed[T]) remove(k *keyState[T]) {
	if k.heapIndex >= 0 {
		heap.Remove(d, int(k.heapIndex))
	}
}

// container/heap calls Len, Less, Swap, Push and Pop. It is older than generics, so Push and Pop
// use any.

func (d delayed[T]) Len() int { return len(d) }

func (d delayed[T]) Less(i, j int) bool { return d[i].due < d[j].due }

func (d delayed[T]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].heapIndex, d[j].heapIndex = int32(i), int32(j)
}

func (d *delayed[T]) Push(x any) {
	k := x.(*keyState[T])
	k.heapIndex = int32(len(*d))
	*d = append(*d, k)
}

func (d *delayed[T]) Pop() any {
	old := *d
	last := len(old) - 1
	k := old[last]
	old[last] = nil
	*d = old[:last]
	if last == 0 {
		*d = nil // many keys may have failed together
	}
	k.heapIndex = -1
	return k
}
