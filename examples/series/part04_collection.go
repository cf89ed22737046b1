package series

import (
	"context"
	"sync"
)

// EventQueueCollection is DeltaFIFO: it turns "add this object" into "add an event: an object was
// added". It has one EventQueue for each key, in the order of their first events.
// Library: eventqueue.Collection.
type EventQueueCollection[T Object] struct {
	known     Reader[T] // the objects that were processed
	more      chan struct{}
	mu        sync.Mutex
	queues    map[string]*EventQueue[T]
	order     []string
	populated bool
	initial   int // queues of the first list that were not popped
}

func NewEventQueueCollection[T Object](known Reader[T]) *EventQueueCollection[T] {
	return &EventQueueCollection[T]{known: known, more: make(chan struct{}, 1), queues: map[string]*EventQueue[T]{}}
}

func (c *EventQueueCollection[T]) Add(object T) error {
	return c.put(Event[T]{Type: Addition, Object: object})
}
func (c *EventQueueCollection[T]) Update(object T) error {
	return c.put(Event[T]{Type: Modification, Object: object})
}
func (c *EventQueueCollection[T]) Delete(object T) error {
	return c.put(Event[T]{Type: Deletion, Object: object})
}

func (c *EventQueueCollection[T]) put(event Event[T]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putLocked(event)
	return nil
}

func (c *EventQueueCollection[T]) putLocked(events ...Event[T]) {
	c.populated = true
	for _, event := range events {
		key := KeyOf(event.Object)
		if c.queues[key] == nil {
			c.queues[key] = &EventQueue[T]{Key: key}
			c.order = append(c.order, key)
		}
		c.queues[key].add(event)
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// Pop takes away the eldest queue. The lock is free while the caller processes it.
func (c *EventQueueCollection[T]) Pop(ctx context.Context) (*EventQueue[T], error) {
	for {
		if queue := c.take(); queue != nil {
			return queue, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.more:
		}
	}
}

func (c *EventQueueCollection[T]) take() (queue *EventQueue[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.order) > 0 {
		queue = c.queues[c.order[0]]
		delete(c.queues, c.order[0])
		c.order = c.order[1:]
		c.initial = max(0, c.initial-1)
	}
	return queue
}

// HasSynced reports whether the queues of the first list were popped, not that they were processed.
func (c *EventQueueCollection[T]) HasSynced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.populated && c.initial == 0
}
