package eventqueue

// ages lists the queues that are not settled yet, oldest first: in the order in which their first
// events came. Guarded by Collection.mu.
type ages[T any] struct{ oldest, newest *Queue[T] }

// add adds a queue that has just come.
func (a *ages[T]) add(q *Queue[T]) {
	q.older = a.newest
	if a.newest != nil {
		a.newest.newer = q
	} else {
		a.oldest = q
	}
	a.newest = q
}

func (a *ages[T]) remove(q *Queue[T]) {
	if q.older != nil {
		q.older.newer = q.newer
	} else {
		a.oldest = q.newer
	}
	if q.newer != nil {
		q.newer.older = q.older
	} else {
		a.newest = q.older
	}
	q.older, q.newer = nil, nil
}

// close unlinks all queues. A consumer may keep one queue for long, and must not keep all others in
// memory with it.
func (a *ages[T]) close() {
	for q := a.oldest; q != nil; {
		next := q.newer
		q.line, q.older, q.newer = nil, nil, nil
		q = next
	}
	*a = ages[T]{}
}

// replace puts a queue in the place of another one.
func (a *ages[T]) replace(old, q *Queue[T]) {
	q.older, q.newer = old.older, old.newer
	if q.older != nil {
		q.older.newer = q
	} else {
		a.oldest = q
	}
	if q.newer != nil {
		q.newer.older = q
	} else {
		a.newest = q
	}
	old.older, old.newer = nil, nil
}
