package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// errUnseen is the reason for which Run leaves a key that waits for a cache.
var errUnseen = errors.New("caches do not show the writes of the last call")

// hold keeps a key from being reconciled until the caches show its writes.
type hold struct {
	unseen []wait
	over   chan struct{} // closed at the end
}

// wait waits until a cache shows a write.
type wait func(context.Context) error

// unseen returns waits for the writes that the caches do not show yet.
func (r *run) unseen(key store.Key, writes []written) []wait {
	if r.visibility <= 0 {
		return nil
	}
	var all []wait
	for _, w := range writes {
		for _, source := range r.sources {
			if wait := source.visible(key, w); wait != nil {
				all = append(all, wait)
			}
		}
	}
	return stillUnseen(all)
}

// stillUnseen returns the waits that are not over.
func stillUnseen(all []wait) []wait {
	if len(all) == 0 {
		return nil
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	var unseen []wait
	for _, wait := range all {
		// A wait that is over returns nil even though ctx has ended.
		if errors.Is(wait(now), context.Canceled) {
			unseen = append(unseen, wait)
		}
	}
	return unseen
}

// holdLocked holds a key until some waits are over. If repeat is true, a key whose waits time out is
// reconciled again: its write may be lost.
func (r *run) holdLocked(key store.Key, s *state, unseen []wait, repeat bool) {
	if len(unseen) > 0 {
		h := &hold{unseen, make(chan struct{})}
		s.hold = h
		r.waiters.Go(func() { r.wait(key, h, repeat) })
	}
}

// maxBehind is how long a key waits for a cache that is certain to lack a write. A watch that works
// brings the version within a minute, by a bookmark. Without bookmarks it comes with a list, after
// some watches of ten minutes. If neither comes in an hour, the version may be one of another cluster.
const maxBehind = time.Hour

const waitsOn = "key waits on, because a cache is at an earlier version than the write: does the state of its informer show why?"

// wait waits until the caches show the writes, and then ends the hold. An error ends the wait as
// well.
func (r *run) wait(key store.Key, h *hold, repeat bool) {
	defer close(h.over)
	began, limit, lost := time.Now(), r.visibility, false
	for unseen := h.unseen; len(unseen) > 0; {
		ctx, cancel := context.WithDeadline(r.filled, began.Add(limit))
		err := unseen[0](ctx)
		late := ctx.Err() != nil
		cancel()
		log := r.logger.With(zap.String("reconciler", r.name), zap.Stringer("key", key), zap.Error(err))
		switch {
		case err == nil:
		case r.filled.Err() != nil:
			return // the next Run waits: see leftUnseen
		case late && limit < maxBehind && provesBehind(err):
			log.Warn(waitsOn, zap.Duration("waited", limit), zap.Duration("atMost", maxBehind))
			limit = min(max(2*limit, time.Minute), maxBehind)
			continue
		default:
			// A server that went back to an older state may have lost the write.
			lost = lost || repeat && !errors.Is(err, store.ErrOutOfScope)
			log.Warn("cache does not show what was written")
		}
		unseen = unseen[1:]
	}
	if lost {
		eventqueue.Add(r.keys, key, true)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[key]
	s.hold = nil
	r.tidyLocked(key, s)
}

// provesBehind reports whether the error of a wait proves that the cache lacks the write: it was at
// an earlier version. An object that the cache rejected proves nothing, because it holds the version
// back.
func provesBehind(err error) bool {
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
	var all map[store.Key][]wait
	for key, s := range r.states {
		if s.hold != nil {
			if all == nil {
				all = map[store.Key][]wait{}
			}
			all[key] = s.hold.unseen
		}
	}
	return all
}
