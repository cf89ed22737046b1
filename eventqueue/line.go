package eventqueue

import (
	"container/heap"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// line is what a collection knows of one key: the events that wait in line for
// the next Queue, and the Queue that is out. Guarded by Collection.mu.
type line[T any] struct {
	key store.Key
	// hash is that of key, and chained is the next line with one like it: see lines.
	hash    uint64
	chained *line[T]

	// waiting is the next Queue, which nobody holds yet; out is the one that is
	// out. Either is nil if there is none.
	waiting, out *Queue[T]

	// failures counts the attempts since the key was last acknowledged; err is
	// the last one's.
	failures int
	err      error

	// next and prev link the keys of a ring that are ready; nil while this one is
	// not. A key for which something happens while it is out is linked at once, so
	// that it keeps its place. ring is the head of that ring; nil if the key has no
	// place in one.
	next, prev, ring *line[T]

	// passed is not 0 if the key's turn came while it was out: the less, the
	// earlier. It is then not linked until it is back, so that nobody has to pass
	// it over twice.
	passed uint64

	// due is when the back-off of the key is over; heapIndex is its place
	// among those that wait for it, or -1.
	due       time.Duration
	heapIndex int
}

func (l *line[T]) linked() bool { return l.next != nil }

// pushBack puts a key that is not linked at the end of a ring.
func (l *line[T]) pushBack(ring *line[T]) { l.linkBefore(ring, ring) }

// pushFront puts a key that is not linked in front of a ring.
func (l *line[T]) pushFront(ring *line[T]) { l.linkBefore(ring.next, ring) }

func (l *line[T]) linkBefore(next, ring *line[T]) {
	l.next, l.prev, l.ring = next, next.prev, ring
	l.prev.next, l.next.prev = l, l
}

// pushBy puts a key that was passed over, and is back, in front of a ring, but behind
// those whose turn came earlier.
func (l *line[T]) pushBy(ring *line[T]) {
	next := ring.next
	for next.passed != 0 && next.passed < l.passed {
		next = next.next
	}
	l.linkBefore(next, ring)
}

// unlink takes a key's place away, if it has one.
func (l *line[T]) unlink() {
	if l.linked() {
		l.prev.next, l.next.prev = l.next, l.prev
	}
	l.next, l.prev, l.ring, l.passed = nil, nil, nil, 0
}

// pass takes a key that is out out of its ring, as the turn-th of all.
func (l *line[T]) pass(turn uint64) {
	ring := l.ring
	l.unlink()
	l.ring, l.passed = ring, turn
}

// delayed is a heap of the keys whose back-off runs, the first due on top.
type delayed[T any] []*line[T]

func (d *delayed[T]) add(l *line[T]) { heap.Push(d, l) }

func (d *delayed[T]) remove(l *line[T]) {
	if l.heapIndex >= 0 {
		heap.Remove(d, l.heapIndex)
	}
}

// Len, Less, Swap, Push and Pop are for container/heap, which is older than
// generics and so deals in any.

func (d delayed[T]) Len() int { return len(d) }

func (d delayed[T]) Less(i, j int) bool { return d[i].due < d[j].due }

func (d delayed[T]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].heapIndex, d[j].heapIndex = i, j
}

// Push and Pop take and return any because container/heap calls them.
func (d *delayed[T]) Push(x any) {
	l := x.(*line[T])
	l.heapIndex = len(*d)
	*d = append(*d, l)
}

func (d *delayed[T]) Pop() any {
	old := *d
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	l.heapIndex = -1
	return l
}
