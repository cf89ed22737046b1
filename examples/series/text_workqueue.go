package series

import (
	"sync"
	"time"
)

// WorkQueue holds the keys that wait for a worker, each at most once. It is client-go's
// workqueue.
//
// Library: eventqueue.Collection, of keys; reconcile.Reconciler has one.
type WorkQueue[K comparable] struct {
	mu       sync.Mutex // guards the fields below, and is the lock of more
	more     *sync.Cond
	waiting  []K        // in the order in which workers get them
	dirty    map[K]bool // must be worked on: the waiting keys, and those added while in work
	inWork   map[K]bool // given to a worker that has not called Done
	failures map[K]int  // since Forget
	stopped  bool
}

// NewWorkQueue makes an empty queue.
func NewWorkQueue[K comparable]() *WorkQueue[K] {
	q := &WorkQueue[K]{dirty: map[K]bool{}, inWork: map[K]bool{}, failures: map[K]int{}}
	q.more = sync.NewCond(&q.mu)
	return q
}

// Add asks for work on a key. A key that waits is not added twice. A key in work waits until its
// worker is done, because two workers would write over each other.
func (q *WorkQueue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dirty[key] || q.stopped {
		return
	}
	q.dirty[key] = true
	if !q.inWork[key] {
		q.waiting = append(q.waiting, key)
		q.more.Signal()
	}
}

// Get waits for a key. The worker calls Done when it has worked on it.
func (q *WorkQueue[K]) Get() (key K, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.stopped {
		q.more.Wait()
	}
	if q.stopped {
		return key, false
	}
	key, q.waiting = q.waiting[0], q.waiting[1:]
	delete(q.dirty, key)
	q.inWork[key] = true
	return key, true
}

// Done ends the work on a key. If the key was added meanwhile, it waits now.
func (q *WorkQueue[K]) Done(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.inWork, key)
	if q.dirty[key] {
		q.waiting = append(q.waiting, key)
		q.more.Signal()
	}
}

// Retry adds a key after a back-off, which doubles with each failure: 5 ms, 10 ms, up to a minute. In
// client-go it is up to 1,000 s.
func (q *WorkQueue[K]) Retry(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait := min(time.Minute, 5*time.Millisecond<<min(q.failures[key], 20))
	q.failures[key]++
	time.AfterFunc(wait, func() { q.Add(key) })
}

// Forget ends the back-off of a key that succeeded.
func (q *WorkQueue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failures, key)
}

// ShutDown ends all workers: they get no more keys.
func (q *WorkQueue[K]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.more.Broadcast()
}
