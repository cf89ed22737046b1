package eventqueue

import (
	"container/heap"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// line is the state of one key: the events that wait for the next Queue, and the Queue that is out.
// Guarded by Collection.mu.
type line[T any] struct {
	key store.Key
	// hash is the hash of key. chained is the next line of the same hash chain: see lines.
	hash    uint64
	chained *line[T]

	// waiting is the next Queue, which is not handed out yet. out is the Queue that is out. Either
	// is nil if there is none.
	waiting, out *Queue[T]

	// failures counts the failed attempts since the key was last acknowledged. err is the last
	// error.
	failures int
	err      error

	// next and prev link the ready keys of a ring; they are nil while this key is not ready. If an
	// event comes while the key is out, the key is linked at once, so that it keeps its place. ring
	// is the head of that ring, or nil if the key has no place in a ring.
	next, prev, ring *line[T]

	// passed is not 0 if the key's turn came while the key was out; a smaller value means an
	// earlier turn. The key is then unlinked until its queue is back, so that consumers pass it
	// over only once.
	passed uint64

	// due is the end of the key's back-off. heapIndex is the key's place in the heap of delayed
	// keys, or -1.
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

// pushBy links a key that was passed over and is back. It puts the key in front of a ring, but
// behind the keys whose turn came earlier.
func (l *line[T]) pushBy(ring *line[T]) {
	next := ring.next
	for next.passed != 0 && next.passed < l.passed {
		next = next.next
	}
	l.linkBefore(next, ring)
}

// unlink removes the key from its ring, if it is in one.
func (l *line[T]) unlink() {
	if l.linked() {
		l.prev.next, l.next.prev = l.next, l.prev
	}
	l.next, l.prev, l.ring, l.passed = nil, nil, nil, 0
}

// pass removes a key that is out from its ring, and records the turn.
func (l *line[T]) pass(turn uint64) {
	ring := l.ring
	l.unlink()
	l.ring, l.passed = ring, turn
}

// delayed is a heap of the keys in back-off, ordered by due time.
type delayed[T any] []*line[T]

func (d *delayed[T]) add(l *line[T]) { heap.Push(d, l) }

func (d *delayed[T]) remove(l *line[T]) {
	if l.heapIndex >= 0 {
		heap.Remove(d, l.heapIndex)
	}
}

// container/heap calls Len, Less, Swap, Push and Pop. It is older than generics, so Push and Pop
// use any.

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
