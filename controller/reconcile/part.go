package reconcile

import "github.com/kubereflector/kubereflector/store"

// If the primary informer has scopes or shards, they come and go. A key whose object was deleted is
// then reconciled. A key whose object belongs, or now belongs, to another process is not.

// noteEnd records whether the object of a key was deleted.
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

// part drops the state of an object that left. No call follows.
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

// abandons reports whether the primary cache has no object for a key that another process may be
// responsible for. It then drops the state of the key.
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
