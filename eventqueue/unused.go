package eventqueue

// unused holds queues that nobody has any more, because a loop over single events
// handed out what was in them and not the queues. Guarded by Collection.mu.
type unused[T any] struct {
	first *Queue[T] // linked by newer
	len   int
}

// maxUnused is how many are kept: as many as come while one is handled, if not for long.
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

// shrink keeps few.
func (u *unused[T]) shrink() {
	for u.len > inboxIdle {
		u.first = u.first.newer
		u.len--
	}
}
