package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// written is a write of a call. One that is remembered after the call has no Object and no waits.
type written struct {
	ownwrites.Write
	version store.Version // of Object
	final   bool          // Object was being deleted, and had no finalizers left
	waits   []wait        // until the caches show it
	ended   time.Time     // when the call ended
}

// remembered returns what stays of a write after its call.
func (w written) remembered() written {
	w.Object, w.waits = nil, nil
	return w
}

// call is one call of the reconcile function, and its context.
type call struct {
	context.Context
	run    *run
	key    store.Key
	object any // of the primary cache; nil if there is none. Set before the function is called.

	// mu protects the fields below it.
	mu     sync.Mutex
	logger *zap.Logger // nil until first use
	writes []written
}

// callOf returns the call that a context belongs to, or nil.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(ownwrites.Key{}).(*call)
	return c
}

// Value implements [context.Context], hence any.
func (c *call) Value(key any) any {
	if key == (ownwrites.Key{}) {
		return c
	}
	return c.Context.Value(key)
}

// Record implements [ownwrites.Recorder]. It reads the version here, during the user's own call, and the versions of
// the caches, because only later lists can show that the server has lost the write.
func (c *call) Record(write ownwrites.Write) {
	if stream.IsNil(write.Object) {
		return
	}
	w := written{Write: write, version: store.VersionOf(write.Object)}
	w.final = write.Object.GetDeletionTimestamp() != nil && len(write.Object.GetFinalizers()) == 0
	w.waits = c.run.waits(c.key, w)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known(w.version) {
		// A client reports its writes, and its caller may report them again. A write that changes
		// nothing returns the state of an earlier one. Only one write made that state.
		for i := range c.writes {
			if one := &c.writes[i]; one.version == w.version && one.Deleted == w.Deleted && one.final == w.final {
				if w.certain() {
					one.Created, one.Replaced = w.Created, w.Replaced
				}
				return
			}
		}
	}
	c.writes = append(c.writes, w)
}

func (c *call) written() []written {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// RecordWrite reports that the reconcile function of ctx has created or changed an object. Pass the
// object as the API server returned it. The reconciler does not reconcile the key again until the
// caches show the object in that state or a later one. So each call sees at least the writes of the
// call before.
//
// The caches are those of the reconciler's informers whose objects have the type S, and the kind of
// object as far as both state it. The reconciler does not wait for objects of another type, and
// therefore not for an informer made by [informer.NewTransformed] with another type. If
// [informer.Informer.Selects] shows that a cache leaves the object out, the reconciler waits only until
// the cache holds no earlier state of the object.
//
// A cache may leave an object out for another reason, such as an object outside of the namespace of
// a generated client. The wait then ends when the cache has reached a later version, at the latest
// with a bookmark, or as [WithReadYourWritesTimeout] says. Use package scoped for such a namespace.
// The wait also ends when the object is deleted. If a list has shown neither the object nor its deletion, no
// event will. The reconciler then acts as on the event of the deletion, if the write was a creation by
// package write or a client.Resource: RecordWrite does not know which writes of other clients are. If
// the cache has a selector, it sends one GET first, as [informer.Informer.Gone] says, and repeats that while the
// server fails or cannot be reached. If the write took the last finalizer of an object that
// is being deleted, the wait ends when the cache does not hold the object, or holds it without
// finalizers. In a reconciler of several clusters, RecordWrite assumes that the write went to the key's
// cluster.
//
// The functions of package write and the methods of client.Resource call RecordWrite by themselves,
// with the context that they get. Call it after a write by another client.
//
// RecordWrite does nothing outside of a reconcile function, or for a nil object. It may be called
// from any goroutine until the function returns.
func RecordWrite[S metav1.Object](ctx context.Context, object S) {
	ownwrites.Report(ctx, ownwrites.Write{Object: object})
}

// RecordDelete is [RecordWrite] for a deleted object. Pass its last known state. The reconciler
// waits until the caches do not hold the object any more, or show its deletion timestamp: it may
// have finalizers. If object was in deletion already, without finalizers, it waits as RecordWrite says.
func RecordDelete[S metav1.Object](ctx context.Context, object S) {
	ownwrites.Report(ctx, ownwrites.Write{Object: object, Deleted: true})
}

// Logger returns the reconciler's logger, with its name and the key on every line. Outside of a
// reconcile function the logger logs nothing.
func Logger(ctx context.Context) *zap.Logger {
	c := callOf(ctx)
	if c == nil {
		return zap.NewNop()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logger == nil {
		c.logger = c.run.logger.With(zap.String("reconciler", c.run.name), zap.Stringer("key", c.key))
	}
	return c.logger
}

func (w *watching[S]) has(of written) bool {
	if _, ok := of.Object.(S); !ok {
		return false
	}
	// Objects of every kind may have the type S. A cache holds objects of one kind.
	held, ok := w.sample()
	return !ok || mayBeOfOneKind(held, of.Object)
}

// sample returns an object of the cache. It remembers a key, because iterating takes a snapshot, and the commit after
// a snapshot costs more.
func (w *watching[S]) sample() (held S, ok bool) {
	cache := w.informer.Cache()
	if key := w.sampled.Load(); key != nil {
		held, ok = cache.Get(*key)
	}
	if ok || cache.Len() == 0 {
		return held, ok
	}
	for key, held := range cache.All() {
		w.sampled.Store(&key)
		return held, true
	}
	return held, false
}

// mayBeOfOneKind reports whether two objects may have one kind. Those of generated clients do not state theirs.
func mayBeOfOneKind(a, b any) bool {
	one, other := kindOf(a), kindOf(b)
	if one.Empty() || other.Empty() {
		return reflect.TypeOf(a) == reflect.TypeOf(b)
	}
	return one == other
}

// kindOf returns the kind that an object states; empty if it states none, or only that it is metadata.
func kindOf(object any) schema.GroupKind {
	var stated schema.ObjectKind
	if of, ok := object.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		stated = of.GetObjectKind()
	}
	if stream.IsNil(stated) || stated.GroupVersionKind().Group == metav1.GroupName {
		return schema.GroupKind{}
	}
	return stated.GroupVersionKind().GroupKind()
}

func (w *watching[S]) visible(r *run, of store.Key, what written) wait {
	if !w.has(what) {
		return nil
	}
	cache := w.informer.Cache()
	key, err := cache.KeyOf(what.Object.(S))
	if err != nil {
		return nil
	}
	if key.Cluster == "" {
		key.Cluster = of.Cluster // a write for a key goes to the key's cluster
	}
	return unlessLowered(cache, key, w.shows(r, cache, key, what))
}

// shows returns a wait until the cache shows a write under a key.
func (w *watching[S]) shows(r *run, cache *store.View[S], key store.Key, what written) wait {
	object := what.Object.(S)
	seen := func(ctx context.Context) error {
		err := await.ObjectIn(ctx, cache, key.Cluster, object)
		if e, ok := errors.AsType[*await.Error](err); ok && e.Reached == "" {
			// A cache that is polled has no version either, but it has had a list.
			if listed, rejects := progressIn(cache, key); !listed && !rejects {
				return fmt.Errorf("%w: %w", errBehind, err)
			}
		}
		return err
	}
	switch {
	case what.Deleted || what.final && w.informer.Selects(what.Object):
		// The server answers the removal of the last finalizer with the version of the state before, and
		// removes the object. No later state has finalizers again.
		enough := func(held metav1.Object) bool {
			switch {
			case store.VersionOf(held).UID != what.version.UID:
				return true
			case what.final:
				return len(held.GetFinalizers()) == 0
			}
			return held.GetDeletionTimestamp() != nil
		}
		return func(ctx context.Context) error {
			if err := seen(ctx); err != nil {
				return err
			}
			err := waitUntil(ctx, cache, key, enough)
			if _, rejects := progressIn(cache, key); err != nil && !rejects {
				catchUp := func(ctx context.Context) error { return w.informer.CatchUp(ctx, time.Now(), key) }
				return &undeleted{fmt.Errorf("cache still holds %s as it was before its deletion: %w", key, err), catchUp}
			}
			return err
		}
	case !w.informer.Selects(what.Object):
		// The cache will not show it. It may have shown an earlier state.
		return func(ctx context.Context) error {
			err := waitUntil(ctx, cache, key, func(held metav1.Object) bool { return !earlier(store.VersionOf(held), what.version) })
			if held, ok := cache.Get(key); ok && err != nil {
				err = &await.Error{Wanted: what.version.ResourceVersion, Reached: store.VersionOf(held).ResourceVersion, Key: key, Err: err}
			}
			return err
		}
	}
	return func(ctx context.Context) error {
		if err := seen(ctx); err != nil {
			return err
		}
		held, ok := cache.Get(key)
		switch {
		case ok && earlier(store.VersionOf(held), what.version):
			return cmp.Or(ctx.Err(), errLost)
		case ok || !what.Created:
			return nil
		}
		// A list may have taken the cache past the creation and the deletion of the object, so no event showed
		// either. The handler gets the event that a watch would have brought last.
		switch gone, err := w.informer.Gone(ctx, key, what.version.UID); {
		case err != nil:
			return fmt.Errorf("%w: %w", errUnknown, err)
		case !gone:
			return nil
		}
		return w.handler(r.options, r.trigger)(ctx, eventqueue.Event[S]{Key: key, Type: eventqueue.Deletion, Origin: store.List, Object: object})
	}
}

// errLost means that the server has lost a write: a cache is past it, and holds an earlier state of the object.
var errLost = errors.New("the server has an older state than the one that was written: it was restored from a backup")

// errUnknown means that nothing tells whether an object that a call made is gone again, or is one that the cache
// leaves out. A call for each of the latter might make another one in each call.
var errUnknown = errors.New("cache does not hold the object, which may be gone again")

// mayPass reports whether an error is an errUnknown because the server failed or could not be reached: no permission
// and no method is missing.
func mayPass(err error) bool {
	if !errors.Is(err, errUnknown) {
		return false
	}
	if answer, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return answer.ErrStatus.Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err)
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// errLowered means that a cache may never show a write.
var errLowered = errors.New("a list has lowered the cache's resource version since the write: the server went back to an older state")

// unlessLowered returns a wait that fails at once when the part of a cache that contains a key is below the version that
// it has now. Package await sees that only during its own wait, and the waits of a key run one after the other, and
// after the call.
func unlessLowered[S any](cache *store.View[S], key store.Key, shown wait) wait {
	version := cache.ResourceVersion
	for _, p := range cache.Partitions() {
		if p.Scope().Contains(key) {
			version = p.ResourceVersion // also if it is dropped, and the scope is added again with an earlier list
		}
	}
	before := version()
	return func(ctx context.Context) error {
		if versions.Later(before, version()) {
			var cancel context.CancelCauseFunc
			ctx, cancel = context.WithCancelCause(ctx)
			cancel(errLowered)
		}
		return shown(ctx)
	}
}

// errBehind means that a cache is certain to lack a write, although no version says so.
var errBehind = errors.New("cache lacks the write")

// undeleted is the error of a wait for a deletion. A deletion has no version that would show whether the cache
// is behind, or the server has lost the deletion.
type undeleted struct {
	error
	catchUp func(context.Context) error // with the server, of the part that contains the key
}

func (u *undeleted) Unwrap() error { return u.error }

// catchUpTimeout bounds the question whether a cache is behind. It takes two requests.
const catchUpTimeout = 10 * time.Second

// progressIn reports whether the part of a cache that contains a key has had a list, and whether it has rejected
// an object.
func progressIn[S any](cache *store.View[S], key store.Key) (listed, rejects bool) {
	for _, p := range cache.Partitions() {
		if p.Scope().Contains(key) {
			return p.Synced(), len(p.Rejected()) > 0
		}
	}
	return cache.Snapshot().Synced(), len(cache.Rejected()) > 0
}

// waitUntil waits until a cache holds no object under a key, or an object that is enough.
func waitUntil[S any](ctx context.Context, cache *store.View[S], key store.Key, enough func(metav1.Object) bool) error {
	ended := func() bool {
		held, ok := cache.Get(key)
		object, isObject := any(held).(metav1.Object)
		return !ok || !isObject || enough(object)
	}
	if ended() {
		return nil
	}
	for range cache.WatchKey(ctx, key) {
		if ended() {
			return nil
		}
	}
	return context.Cause(ctx)
}

// errUnseen is the reason for which Run leaves a key that waits for a cache.
var errUnseen = errors.New("caches do not show the writes of the last call")

// hold keeps a key from being reconciled until the caches show its writes.
type hold struct {
	unseen []wait
	over   chan struct{} // closed at the end
}

// wait waits until a cache shows a write. It returns nil if the cache shows it, even if the context has ended.
type wait func(context.Context) error

// look returns the error of a wait that does not wait: a context.Canceled if the cache does not show the write.
func (w wait) look() error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return w(now)
}

// waits returns waits until the caches show a write.
func (r *run) waits(key store.Key, w written) []wait {
	if r.visibility <= 0 {
		return nil
	}
	var all []wait
	for _, source := range r.sources {
		if wait := source.visible(r, key, w); wait != nil {
			all = append(all, wait)
		}
	}
	return all
}

// unseen returns the waits for the writes that the caches do not show yet.
func (r *run) unseen(key store.Key, writes []written) []wait {
	var unseen []wait
	for _, w := range writes {
		for _, wait := range w.waits {
			switch err := wait.look(); {
			case errors.Is(err, context.Canceled):
				unseen = append(unseen, wait)
			case err != nil && !errors.Is(err, store.ErrOutOfScope):
				r.blind.Do(func() {
					r.logger.Warn(cannotWait, zap.String("reconciler", r.name), zap.Stringer("key", key), zap.Error(err))
				})
			}
		}
	}
	return unseen
}

const cannotWait = "cannot tell whether a cache shows what a call wrote, so the next call does not wait for it; this is logged once"

// holdLocked holds a key until some waits are over. If repeat is true, a key whose waits time out is
// reconciled again: its write may be lost.
func (r *run) holdLocked(key store.Key, s *state, unseen []wait, repeat bool) {
	if len(unseen) > 0 {
		h := &hold{unseen, make(chan struct{})}
		s.hold = h
		r.waiters.Go(func() { r.wait(key, h, repeat) })
	}
}

// maxBehind is how long a key waits for a cache that is certain to lack a write, or that cannot be compared with
// the server. A watch that works brings the version within a minute, by a bookmark. Without bookmarks it comes with
// a list, after some watches of ten minutes. If neither comes in an hour, the version may be one of another cluster.
const maxBehind = time.Hour

const waitsOn = "key waits on, because a cache lacks the write, or cannot be compared with the server: does the state of its informer show why?"

// wait waits until the caches show the writes, and then ends the hold. An error ends the wait as
// well.
func (r *run) wait(key store.Key, h *hold, repeat bool) {
	defer close(h.over)
	began, limit, lost := time.Now(), r.visibility, false
	for unseen := h.unseen; len(unseen) > 0; {
		ctx, cancel := context.WithDeadline(r.filled, began.Add(limit))
		err := unseen[0](ctx)
		for pause := time.Second; mayPass(err) && ctx.Err() == nil; pause = min(2*pause, catchUpTimeout) {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
				err = unseen[0](ctx)
			}
		}
		late, behind := ctx.Err() != nil && limit < maxBehind, false
		cancel()
		if err != nil && late && r.filled.Err() == nil {
			behind, err = r.behind(unseen[0], err)
		}
		log := r.logger.With(zap.String("reconciler", r.name), zap.Stringer("key", key), zap.Error(err))
		switch {
		case err == nil:
		case r.filled.Err() != nil:
			return // the next Run waits: see leftUnseen
		case behind:
			log.Warn(waitsOn, zap.Duration("waited", limit), zap.Duration("atMost", maxBehind))
			limit = min(max(2*limit, time.Minute), maxBehind)
			continue
		default:
			// A server that went back to an older state may have lost the write.
			lost = lost || repeat && !errors.Is(err, store.ErrOutOfScope) && !errors.Is(err, errUnknown)
			log.Warn("cache does not show what was written")
		}
		unseen = unseen[1:]
	}
	if lost {
		eventqueue.Add(r.keys, key)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[key]
	s.hold = nil
	r.tidyLocked(key, s)
}

// behind reports whether a cache may still come to show what a wait that ended late waits for. It returns the
// error of the wait with the reason, or nil if the cache shows it by now.
func (r *run) behind(late wait, err error) (bool, error) {
	u, ok := errors.AsType[*undeleted](err)
	if !ok {
		return provesBehind(err), err
	}
	ctx, cancel := context.WithTimeout(r.filled, catchUpTimeout)
	defer cancel()
	failed := u.catchUp(ctx)
	again := late.look()
	if !errors.Is(again, context.Canceled) {
		return false, nil
	}
	if failed != nil {
		err = fmt.Errorf("%w; %w", err, failed)
	}
	// Where a scope was added again meanwhile, CatchUp does not wait for the first list.
	return failed != nil || provesBehind(again), err
}

// provesBehind reports whether the error of a wait proves that the cache lacks the write: it was at
// an earlier version, or had no list at all. An object that the cache rejected proves nothing, because it
// holds the version back.
func provesBehind(err error) bool {
	if errors.Is(err, errBehind) || errors.Is(err, errUnknown) {
		return true
	}
	e, ok := errors.AsType[*await.Error](err)
	if !ok || len(e.Rejected) > 0 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(e.Reached, e.Wanted)
	return err == nil && order < 0
}

// resume holds the keys whose writes an earlier run left unseen.
func (r *run) resume(unseen map[store.Key][]wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, waits := range unseen {
		r.holdLocked(key, r.stateLocked(key), waits, true)
	}
}

// leftUnseen returns the keys whose writes the caches do not show yet.
func (r *run) leftUnseen() map[store.Key][]wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[store.Key][]wait{}
	for key, s := range r.states {
		if s.hold != nil {
			all[key] = s.hold.unseen
		}
	}
	return all
}

// An event that shows only a write of a call for the same key needs no further call. That is certain
// if the write replaced a state that is known: a write without a precondition may have replaced any
// state, and if it changed nothing, the server returns the state of another writer as its result.

// maxOwn is the number of remembered own writes for a key, to recognize their events. It is also
// the number of kept events during a call.
const maxOwn = 16

// ownLife is how long an own write waits for its event. Some have none: a predicate rejects it, or
// the object belongs to other keys. An event that comes later only costs a call.
const ownLife = 5 * time.Minute

// known reports whether a version identifies a state.
func known(v store.Version) bool { return v.UID != "" && v.ResourceVersion != "" }

// earlier reports whether a version is an earlier state of the same object than another one.
func earlier(v, than store.Version) bool {
	if v.UID != than.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(v.ResourceVersion, than.ResourceVersion)
	return err == nil && order < 0
}

// certain reports whether it is certain what the write replaced, and that it changed something.
// The server ignores a precondition of "0", and may refuse or ignore others that are no numbers.
func (w written) certain() bool {
	if w.Deleted || !known(w.version) {
		return false
	}
	_, err := resourceversion.CompareResourceVersion(w.Replaced, w.Replaced)
	return w.Created || err == nil && w.Replaced != w.version.ResourceVersion
}

// shown reports whether an event shows the write and no other change. The state before a
// modification must be the one that the write replaced. Otherwise the watch left out states, which
// may be those of other writers.
func (w written) shown(t trigger) bool {
	switch {
	case t.of != w.version || t.listed:
		return false
	case w.Created:
		return t.added
	}
	return t.prior == store.Version{UID: w.version.UID, ResourceVersion: w.Replaced}
}

// keep reports whether to ignore an event for now: it shows an own write of the key, or a running
// call has to end first to decide that.
func (r *run) keep(t trigger) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[t.key]
	if s == nil {
		return false
	}
	kept := s.keep(t)
	r.tidyLocked(t.key, s)
	return kept
}

func (s *state) keep(t trigger) bool {
	if s.running {
		if len(s.during) < maxOwn {
			s.during = append(s.during, t)
			return true
		}
		s.crowded = true
	}
	return s.shows(t)
}

// shows reports whether an event shows only an own write. It forgets the writes that will have no
// event any more.
func (s *state) shows(t trigger) bool {
	own := slices.ContainsFunc(s.own, func(w written) bool { return w.shown(t) })
	// The events of an object keep their order. A list shows only the last state, and a version may
	// come again with another content.
	s.forget(func(w written) bool {
		return w.version == t.of || earlier(w.version, t.of) || t.gone && w.version.UID == t.of.UID
	})
	return own
}

// forget forgets some own writes.
func (s *state) forget(which func(written) bool) {
	if s.own = slices.DeleteFunc(s.own, which); len(s.own) == 0 {
		s.own = nil
	}
}

// foreign ends a call. It remembers the writes of the call, and returns the events of other writers
// during the call.
func (s *state) foreign(wrote []written) []trigger {
	if !s.crowded { // else the events of these writes may have passed
		s.own = append(s.own, wrote...)
	}
	during := slices.DeleteFunc(s.during, s.shows)
	s.during, s.crowded = nil, false
	if excess := len(s.own) - maxOwn; excess > 0 {
		s.own = slices.Delete(s.own, 0, excess)
	}
	return during
}

// heardOf returns the own writes for which the sources deliver events.
func (r *run) heardOf(writes []written, now time.Time) []written {
	var all []written
	for _, w := range writes {
		if w.certain() && slices.ContainsFunc(r.sources, func(source source) bool { return source.has(w) && source.of().Selects(w.Object) }) {
			w.ended = now
			all = append(all, w.remembered())
		}
	}
	return all
}

// sweepLocked forgets old own writes of all keys, at most once in ownLife. The writes of a key that
// waits for a cache stay: their events are still to come.
func (r *run) sweepLocked(now time.Time) {
	if now.Sub(r.swept) < ownLife {
		return
	}
	r.swept = now
	for key, s := range r.states {
		if s.hold == nil && s.own != nil {
			s.forget(func(w written) bool { return now.Sub(w.ended) >= ownLife })
			r.tidyLocked(key, s)
		}
	}
}

// failing is what a key remembers while its calls fail, so that no event of their own writes ends
// the back-off early. A function that writes its error into the status of its object and returns it
// would otherwise be called again for that very write: 3,000 times a minute instead of about 20.
//
// A write counts as own if an event shows its UID and version. Such an event may hide a change of
// another writer, because a write that changes nothing returns the version that the other writer
// made. That change is then reconciled when the back-off ends, and not lost. So this test may be less
// strict than the one of [IgnoreOwnWrites], which drops events.
type failing struct {
	// retried is true from the end of a failed call that reported writes to the beginning of the
	// next call. The queue has the key meanwhile.
	retried bool
	wrote   []written // by the calls since the last success; without their objects
}

// minRemembered is the number of own writes that a failing key remembers at least, beside all of its
// last call. Events of earlier calls seldom come that late.
const minRemembered = 64

// ended records the end of a call. If fails is true, the call is retried after a back-off.
func (f *failing) ended(fails bool, writes []written) {
	if !fails {
		*f = failing{}
		return
	}
	for _, w := range writes {
		if w.version.UID != "" {
			f.wrote = append(f.wrote, w.remembered())
		}
	}
	if excess := len(f.wrote) - max(len(writes), minRemembered); excess > 0 {
		f.wrote = slices.Delete(f.wrote, 0, excess)
	}
	f.retried = len(f.wrote) > 0
}

// caused reports whether the event of a trigger shows a write of the calls that failed, while the
// key waits for its retry. Such an event does not end the back-off of its key early: the queue has the
// key, and the retry sees the change.
func (f *failing) caused(t trigger) bool {
	own := slices.ContainsFunc(f.wrote, func(w written) bool {
		return w.version == t.of || w.Deleted && w.version.UID == t.of.UID
	})
	// Events of an object come in order, so those of its earlier writes have come.
	f.wrote = slices.DeleteFunc(f.wrote, func(w written) bool { return !w.Deleted && earlier(w.version, t.of) })
	return own && f.retried
}
