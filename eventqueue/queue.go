package eventqueue

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

// Type says what happened to an object: [Addition], [Modification] or
// [Deletion].
type Type = store.ChangeType

const (
	// Addition means that an object appeared.
	Addition = store.Addition
	// Modification means that an object changed or, if the event's Origin is
	// Resync, is handed out once more.
	Modification = store.Modification
	// Deletion means that an object is gone, or that it left a scope, a selector or a predicate: see
	// queue-E9.
	Deletion = store.Deletion
)

// Origin says where an event comes from: [Watch], [List] or [Resync].
type Origin = store.Origin

const (
	// Watch is the origin of a change as it happened, and of a key of [Add] or [AddAfter].
	Watch = store.Watch
	// List is the origin of a change that a list revealed: the first objects, and the changes that
	// the watch missed before a relist.
	List = store.List
	// Resync is the origin of an event that [Collection.Resync] queued, and of a key of [AddResync].
	Resync = store.Resync
)

// Event is a change of an object. It is a value: changing one Event changes nothing else. Its
// objects are shared with the cache and read-only.
type Event[T any] struct {
	Type   Type
	Origin Origin

	// Initial is true for the objects of the first list, and for those that the cache held when the
	// collection began to follow it. An Addition that is not Initial is news. Initial is also true for a
	// Deletion of an object that earlier events reported and that the first list does not contain.
	Initial bool

	// FinalStateKnown is true for a Deletion whose Object is the state in which the object was deleted or,
	// if it ceased to match a selector or a predicate, the last state that matched. It is false if a list
	// revealed the deletion: client-go's DeletedFinalStateUnknown.
	FinalStateKnown bool

	// OutOfScope is true for a Deletion of an object whose scope was dropped from the cache: do not clean up
	// after it. It is false for an object that ceased to match a selector or a predicate, although that
	// object exists as well. So with one of these, ask the server before you clean up.
	OutOfScope bool

	// PriorKnown is true for every Modification, false for every Addition, and
	// false for a Deletion only if the object's Addition was merged into it.
	PriorKnown bool

	// Key is the object's key. It is always set.
	Key store.Key

	// Prior is the object before the event, if PriorKnown. The Prior of the
	// first event of a queue is the object that was last acknowledged.
	Prior T

	// Object is the object after the event. For a Deletion, it is the last known state.
	Object T
}

// String returns the type, the key, the origin, and whether the object left, for logs.
func (e Event[T]) String() string {
	if e.OutOfScope {
		return fmt.Sprintf("%v of %v (%v, left)", e.Type, e.Key, e.Origin)
	}
	return fmt.Sprintf("%v of %v (%v)", e.Type, e.Key, e.Origin)
}

// record is an event as a collection keeps it.
type record[T any] struct {
	Event[T]

	// uid is the UID of Object, if it has one. It is kept beside the object
	// because a transformed object may have lost it.
	uid types.UID

	// keptApart is true under KeepAll, and if the predicate of KeepIf chose the event: it is handed over by
	// itself. The collection merges it into no later event.
	keptApart bool

	// The next three say what a consumer knows of an unacknowledged event. Once the queue that is out hands
	// the event over, it is read. When that queue comes back, a read event becomes delivered and tried. A
	// later event that it is merged into is tried as well, and not delivered.

	// tried is true if a consumer got an event of this object and did not acknowledge it. That
	// event may be one that was merged into this one. The handler may have acted on the object.
	tried bool

	// delivered is true if this very event was handed over and not acknowledged.
	delivered bool

	// read is 1 if the queue that is out handed over this event. Several
	// goroutines may read a queue, so it is accessed atomically.
	read uint32
}

// handOver returns the event for the holder of its queue.
func (r *record[T]) handOver() Event[T] {
	if atomic.LoadUint32(&r.read) == 0 {
		atomic.StoreUint32(&r.read, 1)
	}
	return r.Event
}

// wasRead reports whether the queue that is out handed over the event.
func (r *record[T]) wasRead() bool { return atomic.LoadUint32(&r.read) != 0 }

// waitingAgain returns the event in the form in which it waits after its queue came back.
func (r *record[T]) waitingAgain(handedOver bool) record[T] {
	return record[T]{Event: r.Event, uid: r.uid, keptApart: r.keptApart, tried: r.tried || handedOver, delivered: r.delivered || handedOver}
}

// live reports whether an event is news. Events of a first list or of a resync are not live and can
// wait.
func (r *record[T]) live() bool { return !r.Initial && r.Origin != Resync }

// Queue holds the events of one object since its last queue was handed out, oldest first. It holds
// at least one event and never changes. Later events come in the key's next Queue.
//
// A [Collection] hands queues out, and consumers settle them: see the package documentation. All
// methods are safe for concurrent use except [Queue.Each] and [Queue.Hold].
type Queue[T any] struct {
	collection *Collection[T]
	state      *keyState[T] // nil once the queue is settled. Guarded by collection.mu.
	backlog[T]

	attempt int32
	// backoffEnd is the end of the key's last back-off. If the queue was handed out earlier and fails,
	// it is retried then. It has no meaning in the first attempt.
	backoffEnd time.Duration

	// acknowledged is the number of leading events that Each completed.
	acknowledged int32
	// each is the progress of Each or of a loop over single events.
	each progress

	// until is the end that Hold was given, or nil. held is true if the handler returned nil after Hold:
	// Process then settles the queue at that end.
	until <-chan struct{}
	held  bool
}

// Key returns the key of the object.
func (q *Queue[T]) Key() store.Key { return q.events[0].Key }

// Len returns the number of events.
func (q *Queue[T]) Len() int { return len(q.events) }

// Events iterates over the events, oldest first.
func (q *Queue[T]) Events() iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		for i := range q.events {
			if !yield(q.events[i].handOver()) {
				return
			}
		}
	}
}

// Newest returns the last event.
func (q *Queue[T]) Newest() Event[T] { return q.events[len(q.events)-1].handOver() }

// Attempt returns one more than the number of failures of the key since the key was last
// acknowledged: 1 if the key has not failed since then.
func (q *Queue[T]) Attempt() int { return int(q.attempt) }

// Waited returns the time since the oldest event came, or since the end of the delay of [AddAfter].
// A failure does not restart it.
func (q *Queue[T]) Waited() time.Duration { return now() - q.since }

// Done acknowledges the queue. The end of a loop's body does it as well.
func (q *Queue[T]) Done() { q.collection.settle(q, outcome{how: acknowledged}) }

// Fail puts the queue back. The collection retries it after a back-off, together with the events
// that came meanwhile, which do not shorten the back-off. A later event may: see queue-E11. If err is
// an API server's and has a Retry-After, the back-off is at least that long, and no event shortens it.
// Events that [Queue.Each] completed do not come again. If Each completed all events, Fail
// acknowledges the queue. [DrainError] reports err if draining ends before a retry.
//
// If err is [Permanent], the collection gives the queue up: none of its events comes again. If Each
// handled the queue, the events after the failed one do come again.
func (q *Queue[T]) Fail(err error) { q.fail(err, q.retryOf(err)) }

func (q *Queue[T]) fail(err error, retry retry) {
	how := failed
	if IsPermanent(err) {
		how = gaveUp
	}
	// The error's methods As, Is and Unwrap are user code, which must not run under a lock.
	_, panicked := errors.AsType[*PanicError](err)
	panicked = panicked || errors.Is(err, ErrAbandoned)
	q.collection.settle(q, outcome{how: how, err: err, panicked: panicked, retry: retry})
}

// Release puts the queue back in front of its group, as if it had not been handed out. It does not
// count as a failure. Break and return in a loop's body have the same effect. Events that
// [Queue.Each] completed do not come again.
func (q *Queue[T]) Release() { q.collection.settle(q, outcome{how: released}) }

// Hold makes [Collection.Process] keep the queue out after the handler has returned nil, until a
// channel is closed, the context of Process ends, or the collection is closed. Process then calls
// [Queue.Release]. A nil channel never closes. Use Hold for a key that must not be handled yet,
// such as one that waits for a cache. The worker handles other keys in the meantime, and
// [Collection.Drain] waits for the queue. Without Process, Hold has no effect. Only the goroutine
// of the handler may call it.
func (q *Queue[T]) Hold(until <-chan struct{}) {
	if until == nil {
		until = make(chan struct{}) // in q.until, nil means no hold
	}
	q.until = until
}

// handedOverWhole reports whether the holder read no single event. The holder may then have acted
// on the object by its key.
func (q *Queue[T]) handedOverWhole() bool {
	if q.each != notBegun {
		return false
	}
	for i := range q.events {
		if q.events[i].wasRead() {
			return false
		}
	}
	return true
}
