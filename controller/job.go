package controller

import (
	"context"
	"errors"
	"slices"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// maxOwn is how many of the last writes for a key are remembered, to know them when
// they come, and how many events that come during a call.
const maxOwn = 16

// job is what is known of a key beside that it waits. Keys of which there is nothing to
// know have none. Guarded by shift.mu.
type job struct {
	running bool
	// held is true while the caches do not show what was written; parked, if the key
	// is to be reconciled then, with that priority.
	held     bool
	parked   bool
	priority Priority

	failures int
	err      error // of the last call
	dropped  bool  // the time was over before its turn came

	own    []version // what calls wrote and was not heard of yet, if own writes are ignored
	during []trigger // what happened during the call, if own writes are ignored
}

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
	if !j.running && !j.held && !j.dropped && j.err == nil && len(j.own) == 0 {
		delete(s.jobs, key)
	}
}

// trigger has a key reconciled because of an event of a source.
func (s *shift) trigger(t trigger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.key == (store.Key{}) {
		return // nothing has it
	}
	if j := s.jobs[t.key]; j != nil {
		if t.gone {
			j.own = slices.DeleteFunc(j.own, func(own version) bool { return own.uid == t.of.uid })
			s.tidyLocked(t.key, j)
		}
		if at := slices.Index(j.own, t.of); at >= 0 {
			j.own = slices.Delete(j.own, at, at+1)
			s.tidyLocked(t.key, j)
			return
		}
		if s.ignoreOwn && j.running && len(j.during) < maxOwn {
			j.during = append(j.during, t) // who did it is known when the call has ended
			return
		}
	}
	s.add(t.key, t.priority)
}

// add puts a key into the queue.
func (s *shift) add(key store.Key, p Priority) {
	s.order.want(key, p)
	s.queue.Add(key)
}

// parkLocked has a key reconciled when the caches show what was written.
func (s *shift) parkLocked(j *job, p Priority) {
	if !j.parked || j.priority < p {
		j.priority = p
	}
	j.parked = true
}

// begin reports whether a key may be reconciled now.
func (s *shift) begin(key store.Key, p Priority) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobLocked(key)
	switch {
	case j.held:
		s.parkLocked(j, p)
		return false
	case s.working.Err() != nil:
		j.dropped = true
		return false
	}
	j.running = true
	return true
}

// settle notes how a call ended, and says when the next one is.
func (s *shift) settle(key store.Key, p Priority, c *call, result Result, err error) {
	if failed := s.note(key, err); failed != nil {
		s.report(context.WithValue(s.working, callKey{}, c), failed)
	}
	waits := s.waits(c.written())
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobLocked(key)
	j.running = false
	if s.ignoreOwn {
		s.foreignLocked(key, j, c.written())
	}
	if len(waits) > 0 {
		j.held = true
		s.waiters.Go(func() { s.wait(key, waits) })
	}
	for _, t := range j.during {
		s.add(key, t.priority)
	}
	j.during = nil
	switch {
	case err == nil || eventqueue.IsPermanent(err):
		s.queue.Forget(key)
		if err == nil && result.RequeueAfter > 0 {
			s.order.want(key, result.Priority)
			s.queue.AddAfter(key, result.RequeueAfter)
		}
	default:
		if result.Priority != Normal {
			p = result.Priority
		}
		s.order.want(key, p)
		s.queue.AddRateLimited(key)
	}
	s.tidyLocked(key, j)
}

// note counts a failure, and returns it unless the call failed because it was told to
// end.
func (s *shift) note(key store.Key, err error) *eventqueue.HandlerError {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobLocked(key)
	if err == nil {
		j.failures, j.err = 0, nil
		return nil
	}
	j.failures++
	failed := &eventqueue.HandlerError{Key: key, Attempt: j.failures, Err: err}
	j.err = err
	if eventqueue.IsPermanent(err) {
		j.failures, j.err = 0, nil
	}
	if s.working.Err() != nil && errors.Is(err, s.working.Err()) {
		return nil
	}
	return failed
}

// foreignLocked leaves what others did of what happened during a call, and remembers
// what it wrote itself and was not heard of yet.
func (s *shift) foreignLocked(key store.Key, j *job, writes []written) {
	for _, w := range writes {
		heardOf := slices.ContainsFunc(s.sources, func(source source) bool { return source.visible(w) != nil })
		if heardOf && !w.deleted {
			j.own = append(j.own, versionOf(w.object))
		}
	}
	j.during = slices.DeleteFunc(j.during, func(t trigger) bool {
		at := slices.Index(j.own, t.of)
		if at < 0 {
			return false
		}
		j.own = slices.Delete(j.own, at, at+1)
		return true
	})
	if len(j.own) > maxOwn {
		j.own = slices.Delete(j.own, 0, len(j.own)-maxOwn)
	}
}

// waits returns what waits for writes that the caches do not show yet.
func (s *shift) waits(writes []written) []func(context.Context) error {
	if s.visibility <= 0 || len(writes) == 0 {
		return nil
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	var all []func(context.Context) error
	for _, w := range writes {
		for _, source := range s.sources {
			// Whoever does not have to wait returns nil even though the time is over.
			if wait := source.visible(w); wait != nil && errors.Is(wait(now), context.Canceled) {
				all = append(all, wait)
			}
		}
	}
	return all
}

// wait waits for what was written, and lets the key go on. An error ends the wait as
// well: there is no more to wait for.
func (s *shift) wait(key store.Key, waits []func(context.Context) error) {
	ctx, cancel := context.WithTimeout(s.working, s.visibility)
	defer cancel()
	for _, wait := range waits {
		if err := wait(ctx); err != nil && s.working.Err() == nil {
			s.logger.Warn("cache does not show what was written", zap.String("reconciler", s.name), zap.Stringer("key", key), zap.Error(err))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[key]
	if s.working.Err() != nil {
		return // what is parked is left
	}
	j.held = false
	if j.parked {
		j.parked = false
		s.add(key, j.priority)
	}
	s.tidyLocked(key, j)
}
