package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// visible returns a wait until the cache shows a write: see source.
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
		return w.tellIfGone(ctx, r, key, object)
	}
}

// tellIfGone gives the handler the deletion of an object that a call made, if the object is gone. A list may have taken
// the cache past the creation and the deletion, so no event showed either. While the server fails, it asks again.
func (w *watching[S]) tellIfGone(ctx context.Context, r *run, key store.Key, object S) error {
	for pause := time.Second; ; pause = min(2*pause, catchUpTimeout) {
		switch gone, err := w.informer.Gone(ctx, key, store.VersionOf(object).UID); {
		case err != nil && (ctx.Err() != nil || !mayPass(err)):
			return fmt.Errorf("%w: %w", errUnknown, err)
		case gone:
			return w.handler(r.options, r.trigger)(ctx, eventqueue.Event[S]{Key: key, Type: eventqueue.Deletion, Origin: store.List, Object: object})
		case err == nil:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// errLost means that the server has lost a write: a cache is past it, and holds an earlier state of the object.
var errLost = errors.New("the server has an older state than the one that was written: it was restored from a backup")

// errUnknown means that nothing tells whether an object that a call made is gone again, or is one that the cache
// leaves out. A call for each of the latter might make another one in each call.
var errUnknown = errors.New("cache does not hold the object, which may be gone again")

// mayPass reports whether a request failed because the server did, or could not be reached: no permission and no
// method is missing.
func mayPass(err error) bool {
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
