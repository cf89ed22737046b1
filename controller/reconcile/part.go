package reconcile

import (
	"context"
	"slices"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

// An object that the primary cache does not have may exist: it stopped matching the selector of the
// informer, or its scope left this process. A function that cleans up after such an object
// destroys what belongs to a living one. So the run asks the informer, which asks the server unless
// the watch alone is proof.

// ended are the objects of a key that events showed as deleted, and after which no call has
// succeeded.
type ended struct {
	// uids are distinct; an empty one is unknown. Two known ones are enough to know that one of them is
	// gone, whatever exists, so there are at most three.
	uids []types.UID
	// confirmed is true if the server said that they are gone. They stay gone, so a repeated call does
	// not ask again.
	confirmed bool
	back      bool // the key has had an object since
}

func (e ended) any() bool { return len(e.uids) > 0 }

func (e *ended) add(uid types.UID) {
	e.confirmed, e.back = false, false
	if len(e.uids) < 3 && !slices.Contains(e.uids, uid) {
		e.uids = append(e.uids, uid)
	}
}

// and returns the objects of both.
func (e ended) and(later ended) ended {
	for _, uid := range later.uids {
		e.add(uid)
	}
	return e
}

// confirm records that the server said that the objects are gone.
func (e *ended) confirm() {
	e.confirmed = slices.ContainsFunc(e.uids, func(uid types.UID) bool { return uid != "" })
}

// noteEnd records whether the object of a key was deleted.
func (r *run) noteEnd(t trigger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.gone {
		r.stateLocked(t.key).gone.add(types.UID(t.of.uid))
	} else if s := r.states[t.key]; s != nil {
		s.ending.back = true
	}
}

// part drops the state of an object that left. No call follows.
func (r *run) part(t trigger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[t.key]
	if s == nil {
		return
	}
	if t.primary { // the object exists, and another process is responsible for it
		s.gone, s.ending = ended{}, ended{}
	}
	s.shows(t)
	r.tidyLocked(t.key, s)
}

// read reads the object of a call from the primary cache. Without an object, it reports whether the
// function hears that there is none. No lock is held during the request.
func (r *run) read(ctx context.Context, c *call) (calls bool, err error) {
	if len(r.sources) == 0 {
		return true, nil
	}
	primary := r.sources[0]
	if c.object = primary.object(c.key); c.object != nil {
		return true, nil
	}
	ending := r.endingOf(c.key)
	if ending.confirmed {
		return true, nil
	}
	gone, err := primary.gone(ctx, c.key, ending.uids)
	if err != nil || !gone {
		return false, err
	}
	r.confirm(c.key)
	c.object = primary.object(c.key) // it may have come back during the request
	return true, nil
}

func (r *run) endingOf(key store.Key) ended {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[key]; s != nil {
		return s.ending
	}
	return ended{}
}

func (r *run) confirm(key store.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[key]; s != nil {
		s.ending.confirm()
	}
}
