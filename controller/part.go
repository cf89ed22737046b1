package controller

import "github.com/kubereflector/kubereflector/store"

// What is told apart where the primary informer has scopes or shards, which come and go: a key
// whose object was deleted is reconciled, one whose object is, or has become, somebody else's
// is not.

// noteEnd notes whether the object of a key was deleted.
func (s *shift) noteEnd(t trigger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[t.key]
	switch {
	case t.gone:
		s.jobLocked(t.key).gone = true
	case j != nil:
		j.gone, j.ending = false, false
		s.tidyLocked(t.key, j)
	}
}

// part forgets what is known of an object that left. No call is made for it.
func (s *shift) part(t trigger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[t.key]
	if j == nil {
		return
	}
	if t.primary {
		j.gone, j.ending = false, false
	}
	j.shows(t)
	s.tidyLocked(t.key, j)
}

// abandons reports whether a key has no object here, and may be somebody else's. Then what is
// known of it is forgotten.
func (s *shift) abandons(key store.Key) bool {
	if len(s.sources) == 0 || !s.sources[0].lacks(key) || s.sources[0].covers(key) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[key]
	if j == nil {
		return true
	}
	if j.gone {
		return false
	}
	j.due, j.parked, j.err, j.failures, j.during = false, false, nil, 0, nil
	s.tidyLocked(key, j)
	return true
}
