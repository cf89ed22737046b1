package informer

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
)

var (
	// ErrNotScoped means that a scope was added to an informer that was not made by
	// [NewScoped], or dropped from one.
	ErrNotScoped = errors.New("informer has one client for everything: make one with NewScoped")

	// ErrNoScopes means that an informer waits for its first scope.
	ErrNoScopes = errors.New("informer has no scopes yet: add one with AddScope")

	// ErrNoScope means that a scope is to be dropped that the informer does not have.
	ErrNoScope = errors.New("informer has no such scope")
)

// ScopeError says what is wrong with one scope of an informer. Err is [ErrNotScoped],
// [ErrNoScope], that the scope overlaps another one ([store.ErrOutOfScope]), or what its
// reflector returned.
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

// NewScoped returns an informer of several namespaces, or clusters, in one cache. Add
// each with [AddScope], before or while Run runs; without one there is nothing to watch.
//
//	pods := informer.NewScoped(store.ObjectKey[*corev1.Pod])
//	err := informer.AddScope(pods, store.Scope{Cluster: "west"}, west.CoreV1().Pods(""))
func NewScoped[T any](key store.KeyFunc[T], opts ...Option) *Informer[T] {
	i := newInformer(key, opts)
	i.feed = &scopes[T]{name: i.name, cache: i.cache, part: i.part, synced: make(chan struct{})}
	return i
}

// AddScope makes a scoped informer hold, besides what it does, the objects of a client:
// those of one namespace, of one cluster, or of one namespace of one cluster. Their keys
// have the scope's cluster. The client must be of the scope's namespace, if it has one. If the
// scope is a shard, its reflector asks for that: see [reflector.WithShard]. Shards come and go
// one by one: what the others hold stays, and is not listed again.
//
// While Run runs it begins at once. Subscribers are told of the objects as initial
// additions. It returns a [*ScopeError] if the informer is not scoped, or has a scope
// with some of the same objects. The options are those of this reflector, on top of those
// that [WithReflector] gave for all of them; its name is that of informer and scope. A
// failure that is final for one reflector ends Run for all.
func AddScope[T reflector.Object, L any](i *Informer[T], scope store.Scope, client reflector.Client[T, L], opts ...reflector.Option) error {
	return i.addScope(scope, opts, func(part store.Store[T], opts []reflector.Option) Feed {
		return reflector.New(client, part, opts...)
	})
}

// AddTransformedScope is [AddScope] for an informer of what fn makes of the objects of a
// client: see [NewTransformed].
func AddTransformedScope[T reflector.Object, L, S any](i *Informer[S], scope store.Scope, client reflector.Client[T, L], fn func(T) (S, error), opts ...reflector.Option) error {
	return i.addScope(scope, opts, func(part store.Store[S], opts []reflector.Option) Feed {
		return reflector.New(client, decorate.Transform(part, store.ObjectKey[T], fn), opts...)
	})
}

func (i *Informer[T]) addScope(scope store.Scope, opts []reflector.Option, reflect func(store.Store[T], []reflector.Option) Feed) error {
	all, ok := i.feed.(*scopes[T])
	if !ok {
		return &ScopeError{i.name, scope, ErrNotScoped}
	}
	own := append(i.reflectorOptions(), reflector.WithName(fmt.Sprintf("%s, %v", i.name, scope)))
	if scope.Shard != (store.Shard{}) {
		own = append(own, reflector.WithShard(scope.Shard))
	}
	err := all.add(scope, func(part store.Store[T]) Feed { return reflect(part, append(own, opts...)) })
	if err != nil {
		return &ScopeError{i.name, scope, err}
	}
	return nil
}

// DropScope ends the watch of a scope and forgets what is in it: subscribers are told of
// a deletion for each object, which says [eventqueue.Event].OutOfScope, since it goes on to exist.
// A reconciler of package controller is not called for them. It returns when that is done, and [ErrNoScope] in a
// [*ScopeError] if there is no such scope. The scope may then be added again.
//
// It waits until the reflector has ended, so it must not be called from hooks of a
// reflector, nor [AddScope], which waits for it. Handlers may call both.
func (i *Informer[T]) DropScope(scope store.Scope) error {
	all, ok := i.feed.(*scopes[T])
	if !ok {
		return &ScopeError{i.name, scope, ErrNotScoped}
	}
	if err := all.drop(scope); err != nil {
		return &ScopeError{i.name, scope, err}
	}
	return nil
}
