package informer

import (
	"errors"
	"fmt"
	"sync"
)

// ErrNoInformer means that the function given to [Share] made no informer.
var ErrNoInformer = errors.New("function made no informer")

// ShareError says why an informer cannot be shared: Have is another type than Want, or Err is
// [ErrNoInformer].
type ShareError struct {
	// Name is the requested name.
	Name string
	// Want is the Go type of the requested informer. Have is the Go type of the informer with that
	// name.
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

// Lease is the right to use a shared informer. See [Share].
type Lease[T any] struct {
	of         *Group
	name       string
	share      *share
	membership *Membership

	// mu protects the field below it.
	mu       sync.Mutex
	informer *Informer[T] // nil after Release
}

// Share returns a lease of the informer with a name in a group. If there is none, Share calls
// create and adds the new informer. When the last lease is released, the group stops and forgets
// the informer. The next lease begins with a new informer.
//
// The name stands for type, client, namespace and selectors. If the informer with that name has
// another type, Share returns a [*ShareError]. If two goroutines call Share at the same time,
// create may be called without its informer being used.
func Share[T any](g *Group, name string, create func() *Informer[T]) (*Lease[T], error) {
	lease, err := shareExisting[T](g, name)
	if lease != nil || err != nil {
		return lease, err
	}
	made := create() // not under the lock: create is code of the user
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

// leaseLocked returns a lease of the informer with a name; nil if there is none.
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

// Release gives the lease back. The last release stops the informer and its watch. The cache is
// freed when no reference to it is left. Close your subscriptions first: other users may still use
// the informer. Release returns at once. It may be called more than once, and from a handler.
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
