package series

import (
	"context"
	"sync"
)

// EventQueueCollection is DeltaFIFO: it turns "add this object" into "add an event: this object was
// added". It has an EventQueue for each object, and hands them out in the order of their first events.
//
// Library: eventqueue.Collection.
type EventQueueCollection[T Object] struct {
	known Reader[T] // the objects that were processed

	mu        sync.Mutex // guards the fields below
	filled    *sync.Cond
	queues    map[string]*EventQueue[T]
	order     []string // the keys of queues
	populated bool     // there was a list, or an event
	initial   int      // the number of queues of the first list that were not popped
}

func NewEventQueueCollection[T Object](known Reader[T]) *EventQueueCollection[T] {
	c := &EventQueueCollection[T]{known: known, queues: map[string]*EventQueue[T]{}}
	c.filled = sync.NewCond(&c.mu)
	return c
}

func (c *EventQueueCollection[T]) Add(object T) error    { return c.put(Addition, object) }
func (c *EventQueueCollection[T]) Update(object T) error { return c.put(Modification, object) }
func (c *EventQueueCollection[T]) Delete(object T) error { return c.put(Deletion, object) }

func (c *EventQueueCollection[T]) put(verb EventType, object T) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.populated = true
	c.putLocked(Event[T]{Type: verb, Object: object})
	return nil
}

func (c *EventQueueCollection[T]) putLocked(event Event[T]) {
	key := KeyOf(event.Object)
	if c.queues[key] == nil {
		c.queues[key] = &EventQueue[T]{Key: key}
		c.order = append(c.order, key)
		c.filled.Signal()
	}
	c.queues[key].add(event)
}

// Pop waits for a queue and takes the eldest away. As in the Java outcome, the lock is free again while
// the caller works on the queue; client-go 6.0 processed it under the lock.
func (c *EventQueueCollection[T]) Pop(ctx context.Context) (*EventQueue[T], error) {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.filled.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.order) == 0 {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.filled.Wait()
	}
	queue := c.queues[c.order[0]]
	delete(c.queues, queue.Key)
	c.order = c.order[1:]
	c.initial = max(0, c.initial-1)
	return queue, nil
}

// HasSynced reports whether the first list was popped. It need not have been processed.
func (c *EventQueueCollection[T]) HasSynced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.populated && c.initial == 0
}
