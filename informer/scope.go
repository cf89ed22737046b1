package informer

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

var (
	// ErrNotScoped means that a scope was added to or dropped from an informer that was not made by
	// [NewScoped].
	ErrNotScoped = errors.New("informer has one client for everything: make one with NewScoped")

	// ErrNoScopes means that an informer waits for its first scope.
	ErrNoScopes = errors.New("informer has no scopes yet: add one with AddScope")

	// ErrNoScope means that the informer does not have the scope to drop.
	ErrNoScope = errors.New("informer has no such scope")

	errScopedSelectors = errors.New("informer of scopes cannot have WithSelectors: make one informer for each scope")
)

// ScopeError is an error of one scope of an informer. Err is [ErrNotScoped], [ErrNoScope],
// [store.ErrOutOfScope] if the scope overlaps another one, or the error of its reflector.
type ScopeError struct {
	// Informer is the informer's name: see [WithName].
	Informer string
	Scope    store.Scope
	Err      error
}

// Error names the informer and the scope.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("informer %s, %v: %v", e.Informer, e.Scope, e.Err)
}

// Unwrap returns Err.
func (e *ScopeError) Unwrap() error { return e.Err }

// NewScoped returns an informer of several namespaces, or clusters, in one cache. Add each with
// [AddScope], before or while Run runs. Without a scope, the informer watches nothing.
//
//	pods := informer.NewScoped(store.ObjectKey[*corev1.Pod])
//	err := informer.AddScope(pods, store.Scope{Cluster: "west"}, west.CoreV1().Pods(""))
func NewScoped[T any](key store.KeyFunc[T], opts ...Option) *Informer[T] {
	return newScopes(newInformer(store.New(key), opts))
}

// NewScopedStored is [NewScoped] with a store behind the cache: see [NewStored].
func NewScopedStored[T any](backing Backing[T], opts ...Option) *Informer[T] {
	return newScopes(newStored(backing, opts))
}

func newScopes[T any](i *Informer[T]) *Informer[T] {
	i.feed = &scopes[T]{
		name:   i.name,
		part:   func(at place) (store.Store[T], error) { return i.part(at.scope) },
		remove: func(at place) error { return i.cache.Drop(at.scope) },
		synced: make(chan struct{}),
	}
	return i
}

// AddScope adds the objects of a client to a scoped informer: the objects of one namespace, of one
// cluster, or of one namespace of one cluster. Their keys have the scope's cluster. If the scope
// has a namespace, the client must be for that namespace. If the scope is a shard, its reflector
// asks for that shard: see [reflector.WithShard]. Shards come and go one by one: the informer keeps
// the objects of the other shards and does not list them again.
//
// While Run runs, the new reflector begins at once. Subscribers get the objects as initial
// additions. AddScope returns a [*ScopeError] if the informer is not scoped, or has an overlapping
// scope. opts apply to this reflector, after the options that [WithReflector] gave for all of them.
// Its name combines informer and scope. A final failure of one reflector ends Run for all.
func AddScope[T reflector.Object, L any](i *Informer[T], scope store.Scope, client reflector.Client[T, L], opts ...reflector.Option) error {
	all, ok := i.feed.(*scopes[T])
	switch {
	case !ok:
		return &ScopeError{i.name, scope, ErrNotScoped}
	case i.selectors != nil:
		return &ScopeError{i.name, scope, errScopedSelectors}
	}
	own := append(i.reflectorOptions(), reflector.WithName(fmt.Sprintf("%s, %v", i.name, scope)))
	if scope.Shard != (store.Shard{}) {
		own = append(own, reflector.WithShard(scope.Shard))
	}
	err := all.add(place{scope: scope}, func(part store.Store[T]) Feed { return reflector.New(client, part, append(own, opts...)...) })
	if err != nil {
		return &ScopeError{i.name, scope, err}
	}
	return nil
}

// DropScope ends the watch of a scope and removes its objects: subscribers get a deletion for each
// object, with [eventqueue.Event].OutOfScope set, since the object still exists. A reconciler of
// package controller is not called for them. DropScope returns when the objects are removed. It
// returns [ErrNoScope] in a [*ScopeError] if there is no such scope. The scope may then be added
// again.
//
// DropScope waits until the reflector has ended, so error handlers of a reflector must not call it.
// They must not call [AddScope] either, which waits for DropScope. Handlers may call both.
func (i *Informer[T]) DropScope(scope store.Scope) error {
	all, ok := i.feed.(*scopes[T])
	if !ok {
		return &ScopeError{i.name, scope, ErrNotScoped}
	}
	if err := all.drop(place{scope: scope}); err != nil {
		return &ScopeError{i.name, scope, err}
	}
	return nil
}
