package series

import (
	"sync"
	"sync/atomic"
)

// processorListener is the Pump of the Java outcome: two goroutines and a buffer without a bound
// for one handler. Library: informer.Subscription, which has one goroutine and merges.
type processorListener[T Object] struct {
	handler Handler[T]
	add     chan Event[T]
	next    chan Event[T]
	pending atomic.Int64
}

func (p *processorListener[T]) pop() {
	defer close(p.next)
	var pending []Event[T]
	for {
		var next chan Event[T]
		var first Event[T]
		if len(pending) > 0 {
			next, first = p.next, pending[0]
		}
		select {
		case next <- first:
			pending = pending[1:]
		case event, ok := <-p.add:
			if !ok {
				return
			}
			pending = append(pending, event)
		}
		p.pending.Store(int64(len(pending)))
	}
}

func (p *processorListener[T]) run() {
	for event := range p.next {
		Deliver(p.handler, event)
	}
}

// Distributor is sharedProcessor, and EventDistributor of the Java outcome. Library:
// informer.Informer.
type Distributor[T Object] struct {
	mu        sync.Mutex
	listeners map[*processorListener[T]]bool // and whether it is due for a resync
	running   sync.WaitGroup
}

// Handle adds a handler. Sync events reach only those that want them.
func (d *Distributor[T]) Handle(handler Handler[T], syncing bool) *processorListener[T] {
	p := &processorListener[T]{handler: handler, add: make(chan Event[T]), next: make(chan Event[T])}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listeners == nil {
		d.listeners = map[*processorListener[T]]bool{}
	}
	d.listeners[p] = syncing
	d.running.Go(p.pop)
	d.running.Go(p.run)
	return p
}

func (d *Distributor[T]) Distribute(event Event[T]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for listener, syncing := range d.listeners {
		if !event.Sync || syncing {
			listener.add <- event
		}
	}
}

// Close stops all handlers, and drops what they have not seen.
func (d *Distributor[T]) Close() {
	d.mu.Lock()
	for listener := range d.listeners {
		close(listener.add)
	}
	d.listeners = nil
	d.mu.Unlock()
	d.running.Wait()
}
