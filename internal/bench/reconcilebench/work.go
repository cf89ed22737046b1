package reconcilebench

import (
	"sync"
	"sync/atomic"
	"time"
)

// work is what a reconciliation does: it waits at a gate, which is open or not, and is counted.
type work struct {
	// reads is true if a reconciliation is to read its object.
	reads   atomic.Bool
	left    atomic.Int64
	reached chan time.Time // gets the time of the last one that was expected

	gate atomic.Pointer[chan struct{}] // closed if it is open
}

func newWork() *work {
	w := &work{reached: make(chan time.Time, 1)}
	open := make(chan struct{})
	close(open)
	w.gate.Store(&open)
	return w
}

// expect begins to count down.
func (w *work) expect(calls int) { w.left.Store(int64(calls)) }

// begin is what a reconciliation begins with: it says whether the object is to be read.
func (w *work) begin() (reads bool) {
	<-*w.gate.Load()
	return w.reads.Load()
}

// end is what a reconciliation ends with.
func (w *work) end() {
	if w.left.Add(-1) == 0 {
		w.reached <- time.Now()
	}
}

// shut blocks all reconciliations until the caller calls the returned function.
func (w *work) shut() (open func()) {
	gate := make(chan struct{})
	w.gate.Store(&gate)
	return sync.OnceFunc(func() { close(gate) })
}
