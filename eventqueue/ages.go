package eventqueue

// ages is the list of the queues that were not settled, oldest first: they come in
// the order in which their first event did. Guarded by Collection.mu.
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

// close takes the list apart: somebody may keep a queue for long, and should not keep all
// others with it.
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
