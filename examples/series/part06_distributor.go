package series

import "sync"

// Distributor is sharedProcessor: it passes each event on to many handlers. The Java outcome calls it
// EventDistributor.
//
// Library: informer.Informer.
type Distributor[T Object] struct {
	running sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	listeners []*processorListener[T]
	closed    bool
}

// AddHandler adds a handler, which hears of what is distributed from now on. Events from a list or a
// resync reach it only if it is syncing. After Close, AddHandler does nothing.
func (d *Distributor[T]) AddHandler(handler Handler[T], syncing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	p := &processorListener[T]{handler: handler, syncing: syncing}
	p.start(&d.running)
	d.listeners = append(d.listeners, p)
}

func (d *Distributor[T]) Distribute(event Event[T]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.listeners {
		if p.syncing || !event.Sync {
			p.incoming <- event
		}
	}
}

// Close waits for the running handlers. What is in their buffers is lost.
func (d *Distributor[T]) Close() {
	d.mu.Lock()
	for _, p := range d.listeners {
		close(p.incoming)
	}
	d.listeners, d.closed = nil, true
	d.mu.Unlock()
	d.running.Wait()
}
