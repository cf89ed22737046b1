package ondemand

import (
	"container/list"
	"context"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/internal/byreference"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/memsize"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errAbandoned means that a client ended its goroutine.
var errAbandoned = errors.New("client ended by runtime.Goexit")

// flight is a request for one object, and the number of its waiting callers.
type flight[T any] struct {
	waiting int // guarded by Objects.mu
	cancel  context.CancelFunc
	asked   state // of the metadata, when the request began
	// outdated is true if the owned objects had the object meanwhile, or if the metadata was listed
	// again. Its object is only for the callers that wait already. Guarded by Objects.mu.
	outdated bool
	done     chan struct{}
	object   T     // set before done is closed, as are size and err
	size     int64 // of object, if there is a limit of bytes
	err      error // a *FetchError, or the error of the client
}

// fetch returns the object of the server under a key. own reports whether this call started the
// request or joined the request of another caller.
func (o *Objects[T]) fetch(ctx context.Context, key store.Key) (object T, own bool, err error) {
	f, own, err := o.join(ctx, key)
	if err != nil {
		return object, own, err
	}
	defer o.leave(key, f)
	select {
	case <-f.done:
		return f.object, own, f.err
	case <-ctx.Done():
		return object, own, context.Cause(ctx)
	}
}

// join returns the running request for a key, or starts one.
func (o *Objects[T]) join(ctx context.Context, key store.Key) (f *flight[T], own bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isClosed() {
		return nil, false, ErrClosed
	}
	f = o.flights[key]
	if own = f == nil || f.outdated; own {
		if object, ok := o.peekLocked(key); ok {
			// Stored since the caller looked.
			o.recent.use(key)
			o.hits++
			f = &flight[T]{waiting: 1, cancel: func() {}, done: make(chan struct{}), object: object}
			close(f.done)
			return f, own, nil
		}
		f = &flight[T]{done: make(chan struct{}), asked: o.state()}
		o.agreed.ask(key, f)
		// It has the first caller's values, such as a trace, but no caller's deadline.
		var flying context.Context
		flying, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		o.flights[key] = f
		o.requests++
		o.running.Go(func() {
			f.err = errAbandoned // unless the client returns
			defer o.land(key, f)
			defer context.AfterFunc(o.closing, f.cancel)()
			f.object, f.size, f.err = o.ask(flying, key)
		})
	}
	f.waiting++
	return f, own, nil
}

// leave ends a request without waiting callers. A later caller starts a new request.
func (o *Objects[T]) leave(key store.Key, f *flight[T]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		o.forgetLocked(key, f)
	}
}

func (o *Objects[T]) forgetLocked(key store.Key, f *flight[T]) {
	if o.flights[key] == f {
		delete(o.flights, key)
	}
}

// land stores the object and wakes the waiting callers.
func (o *Objects[T]) land(key store.Key, f *flight[T]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forgetLocked(key, f)
	o.answer(key, f)
	if f.err == nil && !o.isClosed() && !f.outdated && o.current(key, f.object) == nil {
		o.recent.put(key, f.object, f.size)
	}
	close(f.done)
}

// ask calls the client. A panic of the client, or of a method of the object, must not end the process: it
// would not if the caller called the client directly.
func (o *Objects[T]) ask(ctx context.Context, key store.Key) (object T, size int64, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = discreet.Error(discreet.Panic(value))
		}
	}()
	client := o.clients(key.Namespace)
	if isNil(client) {
		return object, 0, ErrNoClient
	}
	object, err = client.Get(ctx, key.Name, metav1.GetOptions{})
	if err == nil && isNil(object) {
		err = fmt.Errorf("%w: the client returned nil", store.ErrBadKey)
	}
	if err != nil {
		return object, 0, err
	}
	store.VersionOf(object) // panics if a later call would
	if o.limits.bytes > 0 {
		size = max(memsize.Of(object), 0)
	}
	return object, size, nil
}

// recent keeps the most recently used objects, within limits. It is not safe for concurrent use.
type recent[T any] struct {
	options
	byKey map[store.Key]*list.Element // of *kept[T]
	order *list.List                  // the most recently used first
	size  int64
}

type kept[T any] struct {
	key    store.Key
	object T
	size   int64 // 0 without a limit of bytes
}

func newRecent[T any](o options) recent[T] {
	return recent[T]{options: o, byKey: map[store.Key]*list.Element{}, order: list.New()}
}

func (r *recent[T]) get(key store.Key) (object T, ok bool) {
	e, ok := r.byKey[key]
	if !ok {
		return object, false
	}
	return e.Value.(*kept[T]).object, true
}

// use notes that an object was used.
func (r *recent[T]) use(key store.Key) {
	if e, ok := r.byKey[key]; ok {
		r.order.MoveToFront(e)
	}
}

// put keeps an object, and evicts others if necessary.
func (r *recent[T]) put(key store.Key, object T, size int64) {
	r.drop(key)
	if r.objects == 0 || r.bytes > 0 && size > r.bytes {
		return
	}
	r.byKey[key] = r.order.PushFront(&kept[T]{key, object, size})
	r.size += size
	for r.order.Len() > r.objects || r.bytes > 0 && r.size > r.bytes {
		r.drop(r.order.Back().Value.(*kept[T]).key)
	}
}

func (r *recent[T]) drop(key store.Key) {
	if e, ok := r.byKey[key]; ok {
		r.size -= r.order.Remove(e).(*kept[T]).size
		delete(r.byKey, key)
	}
}

// follower drops objects that the metadata shows to be old.
type follower[T, M Object] struct {
	of       *Objects[T]
	metadata *store.View[M]
}

// Start implements [store.Follower].
func (f *follower[T, M]) Start(state *store.Snapshot[M]) {
	if state.Synced() {
		f.of.metadataChanged(byreference.News{Version: state.ResourceVersion(), Synced: true, Rejected: f.metadata.Rejected()})
	}
}

// Commit implements [store.Follower]. After a list, an object that was newer than its metadata may
// belong to a lost history, because the server was restored from a backup. After another list than
// the first, the server may also show the other parts of an object differently than before, at the
// same version: see ondemand-D7. So no object stays, and no later caller gets the answer to an
// earlier request.
func (f *follower[T, M]) Commit(commit *store.Commit[M]) {
	o := f.of
	o.metadataChanged(byreference.NewsOf(commit, f.metadata))
	if commit.Partition == nil && commit.Origin == store.Watch { // a scope may have been dropped
		o.keepScopes(scopesOf(f.metadata))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range commit.Changes {
		change := &commit.Changes[i]
		key, reshown := change.Key, change.Type == store.Modification && store.VersionOf(change.Prior) == change.Version
		if object, ok := o.recent.get(key); ok && (reshown || o.current(key, object) != nil) {
			o.recent.drop(key)
		}
		if flight := o.flights[key]; flight != nil && reshown {
			flight.outdated = true
		}
	}
	if commit.Origin != store.List {
		return
	}
	for key, e := range o.recent.byKey {
		meta, _ := o.meta(key)
		listed := commit.Partition == nil || commit.Partition.Scope().Contains(key)
		if !store.VersionOf(e.Value.(*kept[T]).object).Equal(meta) || listed && !commit.Initial {
			o.recent.drop(key)
		}
	}
	for _, flight := range o.flights {
		flight.outdated = flight.outdated || !commit.Initial
	}
}
