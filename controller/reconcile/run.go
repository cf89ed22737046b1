package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/failure"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// run is one run of a reconciler: a controller of keys, and the state of the keys.
type run struct {
	*options
	name      string
	reconcile function
	sources   []source
	keys      *eventqueue.Collection[store.Key]

	// filled ends when the caches may not show writes any more: any informer has stopped after the
	// context of Run ended, or the run is over. The waiters end with it.
	filled  context.Context
	end     context.CancelFunc
	waiters sync.WaitGroup
	// stopping ends with the context of Run.
	stopping context.Context

	blind sync.Once // logs that the run does not wait for a write

	scope atomic.Int32 // of the primary objects, as the last one of them showed it; see inScope

	// mu protects the fields below it. It is held briefly, and never while a function of the user runs. It
	// is taken before the lock of keys.
	mu     sync.Mutex
	states map[store.Key]*state
	swept  time.Time // when sweepLocked last looked at all states
	// resumed is closed when paused keys may go on; nil if none is paused: see pause.
	resumed chan struct{}
}

// state is the state of a key, except for its place in the queue. A key without any has none.
// Guarded by run.mu.
type state struct {
	hold *hold // nil if the caches show the writes of the key
	// gone are the deleted objects for which no call has begun. ending are those of the running call.
	gone, ending ended

	failing failing

	// The fields below are only used if own writes are ignored.

	running bool      // a call is running
	own     []written // writes of calls without an event yet, the oldest first
	during  []trigger // events during the call; at most maxOwn
	crowded bool      // there were more events during the call
}

func newRun(ctx context.Context, o *options, name string, reconcile function, sources []source) *run {
	r := &run{options: o, name: name, reconcile: reconcile, sources: sources, stopping: ctx, states: map[store.Key]*state{}}
	r.filled, r.end = context.WithCancel(context.WithoutCancel(ctx))
	// A key has no history: KeepAll would repeat the call for each event.
	queue := append(slices.Clip(o.queue), eventqueue.WithCompaction(eventqueue.KeepLatest))
	r.keys = eventqueue.New(func(key store.Key) (store.Key, error) { return key, nil }, queue...)
	return r
}

// work makes calls until ctx ends and the queue is empty. It then returns the remaining keys as an
// error. The function stop ends the triggers.
func (r *run) work(ctx context.Context, stop func()) error {
	triggers := func(ctx context.Context) error { // the subscriptions add keys by themselves
		<-ctx.Done()
		stop()
		r.watchInformers()
		return nil
	}
	opts := append(slices.Clip(r.controller), controller.WithErrorHandler(r.failed))
	return controller.New(triggers, r.keys, r.handle, opts...).Run(ctx)
}

// watchInformers gives up the keys that wait for any cache when an informer stops: the program ends, and
// the next Run waits for them.
func (r *run) watchInformers() {
	for _, source := range r.sources {
		r.waiters.Go(func() {
			select {
			case <-source.of().Stopped():
				r.end()
			case <-r.filled.Done():
			}
		})
	}
}

// close ends all goroutines of the run.
func (r *run) close() {
	r.end()
	r.keys.Close()
	r.waiters.Wait()
}

// trigger queues a key because of an event of a source.
func (r *run) trigger(t trigger) {
	if !r.accepts(r.name, t.key) {
		return
	}
	if t.primary {
		scope := int32(namespaced)
		if t.key.Namespace == "" {
			scope = clusterScoped
		}
		r.scope.Store(scope)
	}
	t.key = r.inScope(t.key)
	if t.left {
		r.part(t)
		return
	}
	if t.primary {
		r.noteEnd(t)
	}
	if r.ignoreOwn && r.keep(t) {
		return
	}
	r.tellTriggered(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	// The lock is held until the key is queued. Otherwise an event of a call's own write could be found
	// to be a change during the call, and be queued when the call has failed, where it would end the
	// back-off.
	if s := r.states[t.key]; s == nil || !s.failing.caused(t) {
		r.queueKey(t)
	}
}

// queueKey queues the key of a trigger.
func (r *run) queueKey(t trigger) {
	if t.live {
		eventqueue.Add(r.keys, t.key)
	} else {
		eventqueue.AddResync(r.keys, t.key)
	}
}

// handle is the handler of the controller. It makes the call for a key, unless the key is held, or its
// object exists without being in the cache.
func (r *run) handle(ctx context.Context, queue *eventqueue.Queue[store.Key]) (err error) {
	key := queue.Key()
	if r.pause(key, queue) {
		return nil
	}
	held := r.begin(key)
	if held != nil {
		if r.filled.Err() != nil {
			queue.Fail(errUnseen) // the error of Run names the key
		} else {
			queue.Hold(held.over)
		}
		return nil
	}
	c := &call{Context: ctx, run: r, key: key}
	var result Result
	err = eventqueue.ErrAbandoned // if a function of the user panics or calls runtime.Goexit
	defer func() { r.settle(c, result, err) }()
	calls, err := r.read(ctx, c)
	if err != nil {
		return err
	}
	if !calls {
		r.tellUncalled(key)
		return nil
	}
	err = eventqueue.ErrAbandoned
	result, err = r.call(c, queue)
	return err
}

// tellUncalled tells package refer that no call of a key follows: see OnUncalled.
func (r *run) tellUncalled(key store.Key) {
	if r.uncalled != nil {
		r.uncalled(key)
	}
}

// begin begins a call for a key, unless the key is held.
func (r *run) begin(key store.Key) (held *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[key]
	switch {
	case s == nil && !r.ignoreOwn:
		return nil
	case s == nil:
		s = r.stateLocked(key)
	case s.hold != nil:
		return s.hold
	}
	s.ending, s.gone, s.running = s.gone, ended{}, r.ignoreOwn
	s.failing.retried = false
	r.tidyLocked(key, s)
	return nil
}

// call calls the reconcile function.
func (r *run) call(c *call, queue *eventqueue.Queue[store.Key]) (Result, error) {
	ctx := context.Context(c)
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	if len(r.observers) > 0 {
		return r.observed(ctx, queue)
	}
	return r.reconcile(ctx, c.key)
}

// settle records the result of a call, and schedules the next one. The controller takes the key
// back after that. No lock is held while functions of the user are called.
func (r *run) settle(c *call, result Result, err error) {
	for _, t := range r.note(c, err) {
		r.tellTriggered(t)
		r.queueKey(t)
	}
	if err == nil && result.RequeueAfter > 0 {
		eventqueue.AddAfter(r.keys, c.key, result.RequeueAfter)
	}
}

// note records the end of a call and the writes that the caches do not show yet. Unless the error is
// permanent, a failed key is reconciled again, and so is a key whose writes the caches do not show in
// time. note returns the events of other writers during the call.
func (r *run) note(c *call, err error) (during []trigger) {
	key, writes := c.key, c.written()
	unseen := r.unseen(key, writes)
	failed, repeat := err != nil, !eventqueue.IsPermanent(err)
	var heard []written
	now := time.Now()
	if r.ignoreOwn {
		heard = r.heardOf(writes, now)
	}
	fails := failed && repeat
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[key]
	if s == nil && len(unseen) == 0 && !r.ignoreOwn && !(fails && len(writes) > 0) {
		return nil
	}
	s = r.stateLocked(key)
	s.running = false
	s.failing.ended(fails, writes)
	if r.ignoreOwn {
		if during = s.foreign(heard); s.ending.any() && !s.ending.back {
			s.own = nil // else states of deleted keys would stay
		}
	}
	if fails && c.object == nil { // with an object, the function heard of what came after those that are gone
		s.gone = s.ending.and(s.gone)
	}
	s.ending = ended{}
	r.holdLocked(key, s, unseen, repeat && !failed) // a failed key is retried in any case
	r.tidyLocked(key, s)
	if r.ignoreOwn {
		r.sweepLocked(now)
	}
	return during
}

// failed logs a failure of the reconcile function and calls the user's error handler.
func (r *run) failed(ctx context.Context, err error) {
	handlerErr, ok := errors.AsType[*eventqueue.HandlerError](err)
	if !ok {
		return
	}
	if len(r.sources) > 0 {
		handlerErr.ResourceVersion = store.VersionOf(r.sources[0].object(handlerErr.Key)).ResourceVersion
	}
	c := &call{Context: ctx, run: r, key: handlerErr.Key}
	failure.Report(c, r.logger.With(zap.String("reconciler", r.name)), "reconcile failed", handlerErr, r.errorHandler)
}

// stateLocked returns the state of a key, and creates it if necessary.
func (r *run) stateLocked(key store.Key) *state {
	s := r.states[key]
	if s == nil {
		s = &state{}
		r.states[key] = s
	}
	return s
}

// tidyLocked deletes the state of a key if there is nothing to remember.
func (r *run) tidyLocked(key store.Key, s *state) {
	if s.hold == nil && !s.gone.any() && !s.ending.any() && !s.running && len(s.own) == 0 && len(s.failing.wrote) == 0 {
		delete(r.states, key)
	}
}

// An object that the primary cache does not have may exist: it stopped matching the selector of the
// informer, or its scope left this process. A function that cleans up after such an object
// destroys what belongs to a living one. So the run asks the informer, which asks the server unless
// the watch alone is proof.

// ended are the objects of a key that events showed as deleted, and after which no call has
// succeeded.
type ended struct {
	// uids are distinct; an empty one is unknown. Two known ones are enough to know that one of them is
	// gone, whatever exists, so there are at most three.
	uids []types.UID
	// confirmed is true if the server said that they are gone. They stay gone, so a repeated call does
	// not ask again.
	confirmed bool
	back      bool // the key has had an object since
}

func (e ended) any() bool { return len(e.uids) > 0 }

func (e *ended) add(uid types.UID) {
	e.confirmed, e.back = false, false
	if len(e.uids) < 3 && !slices.Contains(e.uids, uid) {
		e.uids = append(e.uids, uid)
	}
}

// and returns the objects of both.
func (e ended) and(later ended) ended {
	for _, uid := range later.uids {
		e.add(uid)
	}
	return e
}

// confirm records that the server said that the objects are gone.
func (e *ended) confirm() {
	e.confirmed = slices.ContainsFunc(e.uids, func(uid types.UID) bool { return uid != "" })
}

// noteEnd records whether the object of a key was deleted.
func (r *run) noteEnd(t trigger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.gone {
		r.stateLocked(t.key).gone.add(t.of.UID)
	} else if s := r.states[t.key]; s != nil {
		s.ending.back = true
	}
}

// part drops the state of an object that left. No call follows.
func (r *run) part(t trigger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[t.key]
	if s == nil {
		return
	}
	if t.primary { // another process is responsible for it
		s.gone, s.ending = ended{}, ended{}
	}
	s.shows(t)
	r.tidyLocked(t.key, s)
}

// read reads the object of a call from the primary cache. Without an object, it reports whether the
// function hears that there is none. No lock is held during the request.
func (r *run) read(ctx context.Context, c *call) (calls bool, err error) {
	if len(r.sources) == 0 {
		return true, nil
	}
	primary := r.sources[0]
	if c.object = primary.object(c.key); c.object != nil {
		return true, nil
	}
	ending := r.endingOf(c.key)
	if ending.confirmed {
		return true, nil
	}
	if to, err := r.placed(ctx, c.key); err != nil || r.moves(c.key, to) { // the event may have come before the first primary object
		return false, err
	}
	gone, err := primary.of().Gone(ctx, c.key, ending.uids...)
	if err != nil || !gone {
		return false, err
	}
	if r.moves(c.key, r.inScope(c.key)) { // the first primary object came during the request
		return false, nil
	}
	r.confirm(c.key)
	c.object = primary.object(c.key) // it may have come back during the request
	return true, nil
}

// placed returns the key as inScope does. It asks discovery first if no primary object has shown whether they have
// namespaces. Without the permission for that, or without an answer that has the kind, the key stays.
func (r *run) placed(ctx context.Context, key store.Key) (store.Key, error) {
	if key.Namespace != "" && r.scope.Load() == unknownScope {
		bare, err := r.sources[0].of().LearnScope(ctx, key)
		if err != nil && !apierrors.IsForbidden(err) && !errors.Is(err, reflector.ErrNotServed) {
			return key, err
		}
		if bare && r.scope.Load() == unknownScope { // other scopes may not know
			key.Namespace = ""
		}
	}
	return r.inScope(key), nil
}

// moves reports whether a key is now another one, and queues that.
func (r *run) moves(key, to store.Key) bool {
	if to != key {
		eventqueue.Add(r.keys, to)
	}
	return to != key
}

func (r *run) endingOf(key store.Key) ended {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[key]; s != nil {
		return s.ending
	}
	return ended{}
}

func (r *run) confirm(key store.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[key]; s != nil {
		s.ending.confirm()
	}
}
