package expiry

import (
	"errors"

	"github.com/kubereflector/kubereflector/store"
)

// follower is a store that hears what its cache holds.
type follower[T any] Store[T]

// Start implements [store.Follower].
func (*follower[T]) Start(*store.Snapshot[*item[T]]) {}

// Commit implements [store.Follower].
func (f *follower[T]) Commit(commit *store.Commit[*item[T]]) {
	s := (*Store[T])(f)
	if len(commit.Changes) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _ := s.queue.next()
	for i := range commit.Changes {
		if change := &commit.Changes[i]; change.Type == store.Deletion {
			s.queue.remove(change.Key)
		} else {
			s.queue.put(change.Key, change.Object)
		}
	}
	if after, ok := s.queue.next(); ok && after != before {
		s.scheduleLocked()
	}
}

// renew begins the time of everything anew that a list had, which is all that is held but
// what was rejected. The caller holds writing.
func (s *Store[T]) renew(err error) {
	rejected := map[store.Key]bool{}
	if e, ok := errors.AsType[*store.RejectedError](err); ok {
		for _, r := range e.Rejections {
			rejected[r.Key] = true
		}
	} else if err != nil {
		return // nothing was stored
	}
	renewed := map[store.Key]*item[T]{}
	for key, i := range s.cache.All() {
		if !rejected[key] {
			i.renew(s.life(i.object))
			renewed[key] = i
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _ := s.queue.next()
	for key, i := range renewed {
		s.queue.hasten(key, i)
	}
	if after, ok := s.queue.next(); ok && after != before {
		s.scheduleLocked()
	}
}
