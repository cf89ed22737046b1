package informer

import (
	"errors"
	"fmt"
	"sync"
)

// ErrNoInformer means that the function given to [Share] made no informer.
var ErrNoInformer = errors.New("function made no informer")

// ShareError says why an informer cannot be shared: Have is another type than Want, or
// Err is [ErrNoInformer].
type ShareError struct {
	// Name is what was asked for.
	Name string
	// Want and Have are Go types: of the informer that was asked for, and of the one
	// that goes by the name.
	Want, Have string
	Err        error
}

// Error names the informer, and both types.
func (e *ShareError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("share informer %q: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("share informer %q: it is a %s, not a %s; use another name", e.Name, e.Have, e.Want)
}

// Unwrap returns Err.
func (e *ShareError) Unwrap() error { return e.Err }

// share is an informer with leases. Guarded by Group.mu.
type share struct {
	// informer is an *Informer of some type; a Group has many, so it is an any.
	informer   any
	membership *Membership
	leases     int
}

// Lease is the right to use an informer that is shared. See [Share].
type Lease[T any] struct {
	of         *Group
	name       string
	share      *share
	membership *Membership

	// mu protects the field below it.
	mu       sync.Mutex
	informer *Informer[T] // nil after Release
}

// Share returns a lease of the informer that goes by a name in a group. If there is
// none, create makes it, and it is added. It is stopped and forgotten when the last lease
// is released; the next one then begins with a new informer.
//
// The name stands for all that matters: type, client, namespace and selectors. A name
// that is that of an informer of another type is refused with a [*ShareError]. It may
// happen that create is called and its informer is not used, because somebody else was
// quicker.
func Share[T any](g *Group, name string, create func() *Informer[T]) (*Lease[T], error) {
	lease, err := shareExisting[T](g, name)
	if lease != nil || err != nil {
		return lease, err
	}
	made := create() // not under the lock: it is code of the user
	if made == nil {
		return nil, &ShareError{Name: name, Err: ErrNoInformer}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if lease, err := leaseLocked[T](g, name); lease != nil || err != nil {
		return lease, err
	}
	if g.shared == nil {
		g.shared = map[string]*share{}
	}
	g.shared[name] = &share{informer: made, membership: g.addLocked(made, nil)}
	return leaseLocked[T](g, name)
}

func shareExisting[T any](g *Group, name string) (*Lease[T], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return leaseLocked[T](g, name)
}

// leaseLocked returns a lease of what goes by a name; nil if nothing does.
func leaseLocked[T any](g *Group, name string) (*Lease[T], error) {
	s := g.shared[name]
	if s == nil {
		return nil, nil
	}
	informer, ok := s.informer.(*Informer[T])
	if !ok {
		var want *Informer[T]
		return nil, &ShareError{Name: name, Want: fmt.Sprintf("%T", want), Have: fmt.Sprintf("%T", s.informer)}
	}
	s.leases++
	return &Lease[T]{of: g, name: name, share: s, membership: s.membership, informer: informer}, nil
}

// Informer returns the informer; nil after Release.
func (l *Lease[T]) Informer() *Informer[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.informer
}

// Release gives the lease back. The last one stops the informer, and with it the watch;
// its cache is freed when nobody refers to it any more. Close your subscriptions before:
// others may still use the informer. It returns at once, and may be called more than
// once, and from a handler.
func (l *Lease[T]) Release() {
	l.mu.Lock()
	released := l.informer == nil
	l.informer = nil
	l.mu.Unlock()
	if released {
		return
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	s := l.share
	l.share = nil
	if s.leases--; s.leases > 0 {
		return
	}
	delete(l.of.shared, l.name)
	s.membership.stopLocked()
}

// Done returns a channel that is closed when the last lease has been released and the
// informer has ended.
func (l *Lease[T]) Done() <-chan struct{} { return l.membership.Done() }
