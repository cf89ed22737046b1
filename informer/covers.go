package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/missing"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lookupTimeout is the timeout of the request of Gone: an API server answers in a second, or is in
// trouble, and the caller tries again.
const lookupTimeout = 10 * time.Second

// Covers reports whether the cache would hold an existing object under a key, as far as its watch has
// come. It returns false in these cases, because the server may have an object that it has not sent:
//
//   - The first list is not complete, also if the cache was restored.
//   - The informer is one of package scoped, and none of its scopes contains the key.
//   - The key is in another namespace than that of the client, or that is not known.
//   - The scope, the reflector or its client has a label selector, a field selector or shards: see
//     [reflector.KubernetesResourceReflector.Covers].
//   - The informer has [WithGet].
//   - The cache rejected the object of the key, or an object whose key is not known: it exists, although the
//     cache may not hold it.
//
// See [Informer.Gone].
func (i *Informer[T]) Covers(key store.Key) bool {
	s := i.sourceOf(key)
	if s == nil || i.get != nil || !s.IsSynced() || i.rejects(key) {
		return false
	}
	of, ok := s.Feed.(interface{ Covers(store.Key) bool })
	return !ok || of.Covers(key)
}

// rejects reports whether an object that the cache rejected may be that of a key.
func (i *Informer[T]) rejects(key store.Key) bool {
	rejected := i.cache.Rejected
	for _, p := range i.cache.Partitions() {
		if p.Scope().Contains(key) {
			rejected = p.Rejected
		}
	}
	return slices.ContainsFunc(rejected(), func(r store.Key) bool { return r == key || r == store.Key{} })
}

// Gone reports whether the object of a key is gone from the API server, and not only from the cache.
// Call it before a cleanup that is due to a [eventqueue.Deletion] or to a missing object: if an object
// stops matching a selector of the informer, the event is the same, but the object exists.
//
// deleted are the UIDs of the objects that events of this informer showed as deleted; an empty one
// stands for an unknown UID. Another object under the key does not count: Gone then returns true,
// because the object that was there before is gone. It needs the UID of the cached object for that: if the type
// of a transform has none, Gone returns false as long as any object has the key.
//
// Where the cache is proof, Gone sends no request: see [Informer.Covers]. Otherwise it sends one GET: see
// [reflector.KubernetesResourceReflector.Lookup]. An error means that Gone does not know, for example
// because the program lacks the permission to get the object: try again later.
//
// If the key is in no scope of the informer, or the informer has only shards, another process may be
// responsible for the key. Gone then returns false without a request, unless there are deleted objects.
func (i *Informer[T]) Gone(ctx context.Context, key store.Key, deleted ...types.UID) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	uid, exists, err := i.lookup(ctx, key, len(deleted) > 0)
	if err != nil {
		hint := ""
		if apierrors.IsForbidden(err) {
			hint = "; allow the program to get the objects, beside list and watch"
		}
		return false, fmt.Errorf("informer %s cannot tell whether %s is gone: %w%s", i.name, key, err, hint)
	}
	isOther := func(was types.UID) bool { return was != "" && uid != "" && was != uid }
	return !exists || slices.ContainsFunc(deleted, isOther), nil
}

// lookup reports whether the server has an object. An object that exists for another process has no
// UID. wasDeleted is true if events showed objects of the key as deleted.
func (i *Informer[T]) lookup(ctx context.Context, key store.Key, wasDeleted bool) (uid types.UID, exists bool, err error) {
	s := i.sourceOf(key)
	switch {
	case s == nil && wasDeleted: // the scope was dropped since, or added again and is not synced
		of, ok := i.feed.(interface{ Covered() bool })
		return "", ok && !of.Covered(), nil
	case s == nil, !wasDeleted && isSharded(s):
		return "", true, nil
	case i.get != nil:
		return i.lookupByGet(ctx, key)
	case wasDeleted && isDropped(s):
		return "", false, nil
	case i.Covers(key):
		if object, held := i.cache.Get(key); held {
			return store.VersionOf(object).UID, true, nil
		}
		if i.sourceOf(key) != s { // the scope was dropped meanwhile, and its objects with it
			return i.lookup(ctx, key, wasDeleted)
		}
		return "", false, nil
	}
	of, ok := s.Feed.(interface {
		Lookup(context.Context, store.Key) (types.UID, bool, error)
	})
	if !ok {
		return "", false, errUnsynced
	}
	uid, exists, err = of.Lookup(ctx, key)
	if errors.Is(err, store.ErrOutOfScope) {
		return "", true, nil
	}
	return uid, exists, err
}

var errUnsynced = errors.New("first list is not complete, or an object was rejected, and the informer has no client to ask: call WaitForSync first, and see State")

// lookupByGet is lookup by the function of WithGet.
func (i *Informer[T]) lookupByGet(ctx context.Context, key store.Key) (uid types.UID, exists bool, err error) {
	object, err := i.get(ctx, key)
	switch {
	case apierrors.IsNotFound(err) && !missing.Path(err):
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	if stream.IsNil(object) {
		return "", false, errNothing
	}
	return object.GetUID(), true, nil
}

var errNothing = errors.New("function of WithGet returned neither an object nor an error: return a NotFound error if there is none")

// sourceOf returns the synced source whose scope has a key, or nil. The only source of an informer without
// scopes counts before it is synced, too.
func (i *Informer[T]) sourceOf(key store.Key) *feed.Source {
	for _, s := range i.feed.Sources() {
		if s.Gone == nil || s.IsSynced() && s.Scope.Contains(key) {
			return s
		}
	}
	return nil
}

func isSharded(s *feed.Source) bool {
	of, ok := s.Feed.(interface{ Shards() []store.Shard })
	return ok && len(of.Shards()) > 0
}

// isDropped reports whether the kind's definition was deleted with all objects that the cache has shown: what exists
// now is another object.
func isDropped(s *feed.Source) bool {
	of, ok := s.Feed.(interface{ Dropped() bool })
	return ok && of.Dropped()
}

// Selects reports whether the cache may come to hold an object in the given state. It returns false
// only if that is certain: the object is in no scope of an informer of package scoped, or the
// selectors of the reflector exclude it. See [reflector.KubernetesResourceReflector.Selects].
func (i *Informer[T]) Selects(object metav1.Object) bool {
	for _, s := range i.feed.Sources() {
		if namespace := s.Scope.Namespace; namespace != "" && namespace != object.GetNamespace() {
			continue
		}
		if of, ok := s.Feed.(interface{ Selects(metav1.Object) bool }); !ok || of.Selects(object) {
			return true
		}
	}
	return false
}

// ClusterScoped reports whether the objects have no namespaces, if the informer's clients know that
// before the first object: see [reflector.KubernetesResourceReflector.ClusterScoped].
func (i *Informer[T]) ClusterScoped() bool {
	sources := i.feed.Sources()
	for _, s := range sources {
		if of, ok := s.Feed.(interface{ ClusterScoped() bool }); !ok || !of.ClusterScoped() {
			return false
		}
	}
	return len(sources) > 0
}

// LearnScope asks discovery whether the objects have namespaces, unless it answered lately, and reports whether
// they are known to have none: see [reflector.KubernetesResourceReflector.LearnScope]. It asks only the
// client whose scope has the key, because another cluster may not answer.
func (i *Informer[T]) LearnScope(ctx context.Context, key store.Key) (clusterScoped bool, err error) {
	s := i.sourceOf(key)
	if s == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if of, ok := s.Feed.(interface{ LearnScope(context.Context) error }); ok {
		err = of.LearnScope(ctx)
	}
	of, ok := s.Feed.(interface{ ClusterScoped() bool })
	return ok && of.ClusterScoped(), err
}

// maxCatchingUp bounds the requests of one CatchUp that run at the same time.
const maxCatchingUp = 64

// CatchUp waits until the cache has every change that the server had at some time after since, in
// each scope: see [reflector.KubernetesResourceReflector.CatchUp]. With keys, it waits only for the
// scopes that have one of them. Reconcilers do that before their
// first call. Other code that works only while it leads calls it with the time at which its term
// began, before an effect that cannot be undone. With time.Now, CatchUp always asks the server.
//
// CatchUp returns an error if ctx ends earlier, also because there is no first list yet: give ctx a
// deadline. It ignores scopes of package scoped that are dropped meanwhile or not synced yet, and caches
// that no reflector of this library fills: for these it returns nil without a proof.
func (i *Informer[T]) CatchUp(ctx context.Context, since time.Time, of ...store.Key) error {
	sources := i.feed.Sources()
	if len(of) > 0 {
		sources = slices.DeleteFunc(slices.Clone(sources), func(s *feed.Source) bool {
			return s.Gone != nil && !slices.ContainsFunc(of, s.Scope.Contains)
		})
	}
	errs := make([]error, len(sources))
	var running sync.WaitGroup
	free := make(chan struct{}, maxCatchingUp)
	for n, s := range sources {
		running.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			errs[n] = catchUp(ctx, s, since)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

func catchUp(ctx context.Context, s *feed.Source, since time.Time) error {
	of, ok := s.Feed.(interface {
		CatchUp(ctx context.Context, since time.Time) error
	})
	if !ok || s.Gone != nil && !s.IsSynced() { // a scope that was added late
		return nil
	}
	within, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-s.Gone: // nil if the source cannot be dropped
			cancel(errGone)
		case <-within.Done():
		}
	})
	err := of.CatchUp(within, since)
	if context.Cause(within) == errGone {
		return nil
	}
	return err
}

var errGone = errors.New("scope was dropped")
