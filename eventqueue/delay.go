package eventqueue

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// backoff is how long a key waits after it failed.
type backoff struct{ base, limit time.Duration }

// delay returns the wait after the given number of failures in a row, which is
// at least 1.
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

// delayLocked makes a key wait.
func (c *Collection[T]) delayLocked(k *keyState[T], wait time.Duration) {
	k.due = now() + wait
	heap.Push(&c.delayed, k)
	c.setTimerLocked()
}

// setTimerLocked makes the timer fire when the first delayed key is due.
func (c *Collection[T]) setTimerLocked() {
	if len(c.delayed) == 0 {
		return
	}
	wait := c.delayed[0].due - now()
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, c.release)
	} else {
		c.timer.Reset(wait)
	}
}

// release makes the keys whose back-off is over ready.
func (c *Collection[T]) release() {
	c.lock()
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

// delayed is a heap of the keys in back-off, ordered by due time.
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
