package eventqueue

// unused holds queues that no consumer has any more, because a loop over single events handed out
// only their events. Guarded by Collection.mu.
type unused[T any] struct {
	first *Queue[T] // linked by newer
	len   int
}

// maxUnused is the largest number of queues that unused keeps. It covers the events that come while
// a handler runs, unless it runs for long.
const maxUnused = inboxSize

func (u *unused[T]) put(q *Queue[T]) {
	if u.len == maxUnused {
		return
	}
	*q = Queue[T]{newer: u.first}
	u.first = q
	u.len++
}

// take returns an empty queue.
func (u *unused[T]) take() *Queue[T] {
	q := u.first
	if q == nil {
		return new(Queue[T])
	}
	u.first, q.newer = q.newer, nil
	u.len--
	return q
}

// shrink keeps at most inboxIdle queues.
func (u *unused[T]) shrink() {
	for u.len > inboxIdle {
		u.first = u.first.newer
		u.len--
	}
}
