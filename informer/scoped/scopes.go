package scoped

import (
	"fmt"
	"slices"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// ErrNoScope means that an informer does not have the scope to drop.
var ErrNoScope = feed.ErrNone

// Scopes are the scopes of an informer. Create them with [New], and add each with [Add].
type Scopes[T any] struct {
	informer *informer.Informer[T]
	all      *feed.Reflectors[T]
	target   feed.Target[T]
}

// New returns the scopes of a new informer; there are none yet. key is the KeyFunc of its objects.
func New[T any](key store.KeyFunc[T], opts ...informer.Option) *Scopes[T] {
	return newScopes(nil, key, opts)
}

// NewStored is [New] with a store behind the cache: see [informer.NewStored].
func NewStored[T any](backing informer.Backing[T], opts ...informer.Option) *Scopes[T] {
	return newScopes(backing, nil, opts)
}

func newScopes[T any](backing informer.Backing[T], key store.KeyFunc[T], opts []informer.Option) *Scopes[T] {
	s := &Scopes[T]{}
	s.informer = informer.NewFed(backing, key, func(target feed.Target[T]) feed.Group {
		s.target = target
		s.all = feed.NewReflectors(target)
		return s.all
	}, opts...)
	return s
}

// Informer returns the informer, to run it and to subscribe to it.
func (s *Scopes[T]) Informer() *informer.Informer[T] { return s.informer }

// Add adds the objects of a client: the objects of one namespace, of one cluster, or of one
// namespace of one cluster. Their keys have the scope's cluster. If the scope has a namespace, the
// client must be for that namespace. With the option [reflector.WithShard], the scope has only the
// objects of that shard.
//
// While the informer runs, the new reflector begins at once. Subscribers get the objects as initial
// additions. A reconciler does not wait for such a scope. So add it to the informers of secondary objects
// first, and to the one of primary objects after their [informer.Informer.WaitForSync]: a call that sees no
// secondary objects yet may make them again. opts apply to this reflector, after the options that [informer.WithReflector] gave for
// all of them. Its name combines informer and scope.
func Add[T reflector.Object, L any](s *Scopes[T], scope store.Scope, client reflector.Client[T, L], opts ...reflector.Option) error {
	own := append(slices.Clone(s.target.Reflector), reflector.WithName(fmt.Sprintf("%s, %v", s.target.Name, scope)))
	return s.failed(scope, s.all.Add(scope, func(into store.Store[T]) feed.Feed {
		return reflector.New(client, into, append(own, opts...)...)
	}))
}

// Drop ends the watch of a scope and removes its objects: subscribers get a deletion for each
// object, with [eventqueue.Event].OutOfScope set, since the object may still exist. A reconciler is
// not called for them. Drop returns when the reflector has ended and the objects are removed. The
// scope may then be added again.
func (s *Scopes[T]) Drop(scope store.Scope) error {
	return s.failed(scope, s.all.Drop(scope))
}

// failed names the informer and the scope of an error.
func (s *Scopes[T]) failed(scope store.Scope, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("informer %s, %v: %w", s.target.Name, scope, err)
}
