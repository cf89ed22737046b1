package measure

import (
	"sync"
	"sync/atomic"
)

// Gate stops handlers while it is shut. The zero Gate is open.
type Gate struct{ shut atomic.Pointer[chan struct{}] }

// Pass waits until the gate is open.
func (g *Gate) Pass() {
	if shut := g.shut.Load(); shut != nil {
		<-*shut
	}
}

// Shut blocks all callers of Pass until the caller calls the returned function.
func (g *Gate) Shut() (open func()) {
	shut := make(chan struct{})
	g.shut.Store(&shut)
	return sync.OnceFunc(func() {
		g.shut.Store(nil)
		close(shut)
	})
}
