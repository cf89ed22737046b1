package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/controller/internal/failure"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// job is the state of a key. A key without any state has no job. Guarded by shift.mu.
type job struct {
	running bool
	// due is true for a key that must be reconciled and may not be in the queue: the queue was shut
	// down, or the time was over, before its turn.
	due bool
	// held is true while the caches do not show the key's writes. parked is true if the key must be
	// reconciled after that, with this priority.
	held     bool
	parked   bool
	priority Priority
	unseen   []wait        // the waits that hold it
	shown    chan struct{} // closed when the hold ends; nil if it was never held

	// gone is true if the key's object was deleted, and no call has begun for that. ending is true
	// if the running call began for that.
	gone, ending bool

	failures int
	err      error // of the last call

	own    []version // writes of calls without an event yet, if own writes are ignored
	during []trigger // events during the call, if own writes are ignored
}

// wait waits until a cache shows a write.
type wait func(context.Context) error

// jobLocked returns the job of a key, and creates it if necessary.
func (s *shift) jobLocked(key store.Key) *job {
	j := s.jobs[key]
	if j == nil {
		j = &job{}
		s.jobs[key] = j
	}
	return j
}

// tidyLocked deletes the job of a key without any state.
func (s *shift) tidyLocked(key store.Key, j *job) {
	if !j.running && !j.held && !j.due && j.err == nil && len(j.own) == 0 && !j.gone {
		delete(s.jobs, key)
	}
}

// trigger queues a key because of an event of a source.
func (s *shift) trigger(t trigger) {
	if t.key == (store.Key{}) { // no object has this key
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
	if !s.byPriority {
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

// park makes release queue the key when the caches show its writes.
func (j *job) park(p Priority) {
	if !j.parked || j.priority < p {
		j.priority = p
	}
	j.parked = true
}

// begin reports whether a key may be reconciled now, and returns the number of the attempt.
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

// settle records the result of a call, and schedules the next one. No call for the key begins
// before the queue gets Done for this one. The lock is not held while functions of the user are
// called. The error handler comes last, because it may end the goroutine.
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
		failure.Report(c, c.log(), "reconcile failed", failed, s.errorHandler, fields...)
	}
}

// note records the result of a call. It returns the failure to report, if there is one, and the
// events of other writers during the call.
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

// interrupted reports whether a call failed because its context ended.
func (s *shift) interrupted(err error) bool {
	ended := s.working.Err()
	return ended != nil && (errors.Is(err, ended) || errors.Is(err, context.Cause(s.working)))
}

// unseen returns waits for the writes that the caches do not show yet.
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

// holdLocked holds a key until some waits are over. If again is true, a key whose waits time
// out is reconciled again.
func (s *shift) holdLocked(key store.Key, j *job, unseen []wait, again bool) {
	if len(unseen) > 0 {
		j.held, j.unseen, j.shown = true, unseen, make(chan struct{})
		s.waiters.Go(func() { s.wait(key, unseen, again) })
	}
}

// wait waits until the caches show the writes, and then releases the key. An error ends the wait as
// well. If again is true, a key that timed out is reconciled again: its write may be lost.
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

// release ends the hold of a key. If the shift has ended before, a parked key stays parked. release
// reports whether to queue the key, which is also the case if a write was lost.
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

// resume holds the keys whose writes an earlier shift left unseen.
func (s *shift) resume(unseen map[store.Key][]wait) {
	for key, waits := range unseen {
		s.mu.Lock()
		s.holdLocked(key, s.jobLocked(key), waits, true)
		s.mu.Unlock()
	}
}

// leftUnseen returns the keys whose writes the caches do not show yet.
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
