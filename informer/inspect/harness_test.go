package inspect_test

import (
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
)

// blocked is a member whose Ready returns when release is closed.
type blocked struct {
	member
	asked   atomic.Int32
	release chan struct{}
}

func newBlocked() *blocked { return &blocked{release: make(chan struct{})} }

func (b *blocked) Ready() error {
	b.asked.Add(1)
	<-b.release
	return nil
}

type panicking struct{ member }

func (panicking) Ready() error { panic("ouch") }

// show returns a page with a member.
func show(name string, m informer.Member) *inspect.Page {
	p := inspect.New()
	p.AddMember(name, m)
	return p
}

// fresh returns the state of a page after its interval.
func fresh(p *inspect.Page) inspect.State {
	<-time.After(inspect.DefaultInterval)
	return p.State()
}
