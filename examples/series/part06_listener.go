package series

import (
	"sync"
	"sync/atomic"
)

// processorListener is one handler with its buffer. The buffer has no bound: the comment in
// client-go says that a stalled handler collects notifications until memory ends. The Java outcome
// calls it Pump.
//
// Library: informer.Subscription, which merges what waits.
type processorListener[T Object] struct {
	handler  Handler[T]
	syncing  bool          // it wants events that are marked as Sync
	incoming chan Event[T] // client-go: addCh
	outgoing chan Event[T] // client-go: nextCh
	waiting  atomic.Int64
}

func (p *processorListener[T]) start(running *sync.WaitGroup) {
	p.incoming, p.outgoing = make(chan Event[T]), make(chan Event[T])
	running.Go(p.pop)
	running.Go(p.run)
}

// pop moves events from incoming to outgoing, so that their sender never waits for the handler.
func (p *processorListener[T]) pop() {
	defer close(p.outgoing)
	var buffer []Event[T]
	for {
		var outgoing chan Event[T] // nil while nothing waits, so that select leaves it alone
		var next Event[T]
		if len(buffer) > 0 {
			outgoing, next = p.outgoing, buffer[0]
		}
		select {
		case outgoing <- next:
			buffer = buffer[1:]
		case event, ok := <-p.incoming:
			if !ok {
				return
			}
			buffer = append(buffer, event)
		}
		p.waiting.Store(int64(len(buffer)))
	}
}

func (p *processorListener[T]) run() {
	for event := range p.outgoing {
		Deliver(p.handler, event)
	}
}
