package controller

import (
	"context"
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// job is what is known of a key beside that it waits. Keys of which there is nothing to
// know have none. Guarded by shift.mu.
type job struct {
	running bool
	// due is true for a key that is to be reconciled and may not be in the queue: the
	// queue, or the time, was over before its turn came.
	due bool
	// held is true while the caches do not show what was written; parked, if the key
	// is to be reconciled then, with that priority.
	held     bool
	parked   bool
	priority Priority
	unseen   []wait        // what it is held for
	shown    chan struct{} // closed when it is not held any more; nil if it never was

	// gone is true if the object of the key was deleted, and no call has been made for that;
	// ending, if the one that is being made is.
	gone, ending bool

	failures int
	err      error // of the last call

	own    []version // what calls wrote and was not heard of yet, if own writes are ignored
	during []trigger // what happened during the call, if own writes are ignored
}

// wait waits until a cache shows a write.
type wait func(context.Context) error

// jobLocked returns what is known of a key.
func (s *shift) jobLocked(key store.Key) *job {
	j := s.jobs[key]
	if j == nil {
		j = &job{}
		s.jobs[key] = j
	}
	return j
}

// tidyLocked forgets a key of which there is nothing to know.
func (s *shift) tidyLocked(key store.Key, j *job) {
	if !j.running && !j.held && !j.due && j.err == nil && len(j.own) == 0 && !j.gone {
		delete(s.jobs, key)
	}
}

// trigger has a key reconciled because of an event of a source.
func (s *shift) trigger(t trigger) {
	if t.key == (store.Key{}) { // nothing has it
		return
	}
	if t.left {
		s.part(t)
		return
	}
	if t.primary {
		s.noteEnd(t)
	}
	if s.ignoreOwn && s.keep(t) {
		return
	}
	if !s.liveFirst {
		t.priority = Normal
	}
	s.tellTriggered(t)
	s.add(t.key, t.priority)
}

// add puts a key into the queue. It calls the user's metrics: not under s.mu.
func (s *shift) add(key store.Key, p Priority) {
	s.order.want(key, p)
	s.ready.Add(key)
}

// park has a key reconciled when the caches show what was written.
func (j *job) park(p Priority) {
	if !j.parked || j.priority < p {
		j.priority = p
	}
	j.parked = true
}

// begin reports whether a key may be reconciled now, and returns which attempt that is.
func (s *shift) begin(key store.Key, p Priority) (attempt int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobLocked(key)
	j.due = false
	switch {
	case j.held:
		j.park(p)
		return 0, false
	case s.working.Err() != nil:
		j.due = true
		return 0, false
	}
	j.running = true
	j.gone, j.ending = false, j.gone
	return j.failures + 1, true
}

// settle notes how a call ended, and says when the next one is. Nobody begins one before
// the queue is told that this one is done. The lock is not held where functions of the
// user are called; the hook, which may end the goroutine, comes last.
func (s *shift) settle(key store.Key, p Priority, c *call, result Result, err error) {
	writes := c.written()
	failed, during := s.note(key, writes, s.unseen(key, writes), err)
	for _, t := range during {
		s.tellTriggered(t)
		s.add(key, t.priority)
	}
	var nextTry time.Duration
	switch {
	case err == nil || eventqueue.IsPermanent(err):
		s.queue.Forget(key)
		if err == nil && result.RequeueAfter > 0 {
			s.order.wantLater(key, result.Priority)
			s.queue.AddAfter(key, result.RequeueAfter)
		}
	default:
		if result.Priority != Normal {
			p = result.Priority
		}
		s.order.wantLater(key, p)
		nextTry = s.limiter.When(key)
		s.queue.AddAfter(key, nextTry)
	}
	if failed != nil {
		failed.ResourceVersion = s.held(key)
		var fields []zap.Field
		if !eventqueue.IsPermanent(err) {
			fields = append(fields, zap.Duration("nextTry", nextTry))
		}
		s.report(c, c.log(), "reconcile failed", failed, fields...)
	}
}

// note notes how a call ended. It returns the failure to report, if there is one, and
// what others did during the call.
func (s *shift) note(key store.Key, writes []written, unseen []wait, err error) (failed *eventqueue.HandlerError, during []trigger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobLocked(key)
	j.running = false
	if s.ignoreOwn {
		during = j.foreign(s.heardOf(writes))
		j.due = len(during) > 0
	}
	s.holdLocked(key, j, unseen, !eventqueue.IsPermanent(err))
	if err != nil {
		j.failures++
		if !s.interrupted(err) {
			failed = &eventqueue.HandlerError{Key: key, Attempt: j.failures, Err: err}
		}
		j.err = err
	}
	if err == nil || eventqueue.IsPermanent(err) {
		j.failures, j.err = 0, nil
	} else {
		j.gone = j.gone || j.ending
	}
	j.ending = false
	s.tidyLocked(key, j)
	return failed, during
}

// held returns the resource version of the object that the primary cache holds.
func (s *shift) held(key store.Key) string {
	if len(s.sources) == 0 {
		return ""
	}
	return s.sources[0].held(key)
}

// interrupted reports whether a call failed because it was told to end.
func (s *shift) interrupted(err error) bool {
	ended := s.working.Err()
	return ended != nil && (errors.Is(err, ended) || errors.Is(err, context.Cause(s.working)))
}

// unseen returns what waits for writes that the caches do not show yet.
func (s *shift) unseen(key store.Key, writes []written) []wait {
	if s.visibility <= 0 {
		return nil
	}
	var all []wait
	for _, w := range writes {
		for _, source := range s.sources {
			if wait := source.visible(key, w); wait != nil {
				all = append(all, wait)
			}
		}
	}
	return stillUnseen(all)
}

// stillUnseen returns those of some waits that are not over.
func stillUnseen(all []wait) []wait {
	if len(all) == 0 {
		return nil
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	var unseen []wait
	for _, wait := range all {
		// Whoever does not have to wait returns nil even though the time is over.
		if errors.Is(wait(now), context.Canceled) {
			unseen = append(unseen, wait)
		}
	}
	return unseen
}

// holdLocked holds a key until some waits are over. If again is true, a key whose waits time
// out is reconciled again.
func (s *shift) holdLocked(key store.Key, j *job, unseen []wait, again bool) {
	if len(unseen) > 0 {
		j.held, j.unseen, j.shown = true, unseen, make(chan struct{})
		s.waiters.Go(func() { s.wait(key, unseen, again) })
	}
}

// wait waits for what was written, and lets the key go on. An error ends the wait as well.
// If again is true, a key whose time is over is reconciled again: its write may be lost.
func (s *shift) wait(key store.Key, unseen []wait, again bool) {
	ctx, cancel := context.WithTimeout(s.working, s.visibility)
	defer cancel()
	lost := false
	for _, wait := range unseen {
		if err := wait(ctx); err != nil && s.working.Err() == nil {
			lost = lost || again && ctx.Err() != nil
			s.logger.Warn("cache does not show what was written", zap.String("reconciler", s.name), zap.Stringer("key", key), zap.Error(err))
		}
	}
	if p, ok := s.release(key, lost); ok {
		s.add(key, p)
	}
}

// release ends the hold of a key, unless the shift has ended before: what is parked is
// left then. It reports whether the key is to be reconciled, as it is if a write was lost.
func (s *shift) release(key store.Key, lost bool) (Priority, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working.Err() != nil {
		return 0, false
	}
	j := s.jobs[key]
	j.held, j.unseen = false, nil
	if lost {
		j.park(Normal)
	}
	close(j.shown)
	j.due, j.parked = j.parked, false
	s.tidyLocked(key, j)
	return j.priority, j.due
}

// resume holds the keys that an earlier shift left unseen.
func (s *shift) resume(unseen map[store.Key][]wait) {
	for key, waits := range unseen {
		s.mu.Lock()
		s.holdLocked(key, s.jobLocked(key), waits, true)
		s.mu.Unlock()
	}
}

// leftUnseen returns the keys for which something was written that the caches do not
// show yet.
func (s *shift) leftUnseen() map[store.Key][]wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all map[store.Key][]wait
	for key, j := range s.jobs {
		if j.held {
			if all == nil {
				all = map[store.Key][]wait{}
			}
			all[key] = j.unseen
		}
	}
	return all
}
