package reconcile

import "github.com/kubereflector/kubereflector/store"

// Scopes of the primary informer may leave this process while it runs. The reconciler
// then reconciles a key without an object only if that object was deleted; if the object merely left,
// another process is responsible for it.

// noteEnd records whether the object of a key was deleted.
func (r *run) noteEnd(t trigger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.gone {
		r.stateLocked(t.key).gone = true
	} else if s := r.states[t.key]; s != nil {
		s.exists()
		r.tidyLocked(t.key, s)
	}
}

// exists records that the object of the key exists, here or elsewhere.
func (s *state) exists() {
	s.gone, s.ending = false, false
}

// part drops the state of an object that left. No call follows.
func (r *run) part(t trigger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[t.key]
	if s == nil {
		return
	}
	if t.primary {
		s.exists()
	}
	s.shows(t)
	r.tidyLocked(t.key, s)
}

// abandons reports whether the primary cache has no object for a key that another process may be
// responsible for. It then drops the state of the key.
func (r *run) abandons(key store.Key) bool {
	if len(r.sources) == 0 || !r.sources[0].lacks(key) || r.sources[0].covers(key) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[key]
	if s == nil {
		return true
	}
	if s.gone {
		return false
	}
	s.during, s.failing = nil, failing{}
	r.tidyLocked(key, s)
	return true
}
