package reconcile

import (
	"context"
	"errors"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
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

// wait waits until the caches show the writes, and then ends the hold. An error ends the wait as
// well.
func (r *run) wait(key store.Key, h *hold, repeat bool) {
	defer close(h.over)
	ctx, cancel := context.WithTimeout(r.filled, r.visibility)
	defer cancel()
	lost := false
	for _, wait := range h.unseen {
		switch err := wait(ctx); {
		case err == nil:
		case r.filled.Err() != nil:
			return // the next Run waits: see leftUnseen
		default:
			lost = lost || repeat && ctx.Err() != nil
			r.logger.Warn("cache does not show what was written", zap.String("reconciler", r.name), zap.Stringer("key", key), zap.Error(err))
		}
	}
	if lost {
		eventqueue.AddAfter(r.keys, key, 0, true)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[key]
	s.hold = nil
	r.tidyLocked(key, s)
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
