package reconcile

import (
	"errors"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// The primary informer may be one of package fleet, whose kind the server does not serve for a while. Its
// cache then has the last objects, and nothing says whether they still exist. No call is made for them.
// A key without an object has nothing that may be outdated: its object was seen deleted.

// errNotServed is the error of a key that Run leaves because the primary kind is not served.
var errNotServed = errors.New("kind is not served, and its last known object may be outdated")

// notServed returns the state of the primary informer if it stands still because its kind is not served.
func (r *run) notServed() (reflector.State, bool) {
	if len(r.sources) == 0 {
		return reflector.State{}, false
	}
	state := r.sources[0].of().State()
	return state, state.Phase == reflector.Stopped && errors.Is(state.Err, reflector.ErrNotServed)
}

// pause holds a key whose object may be outdated, and reports whether it did.
func (r *run) pause(key store.Key, queue *eventqueue.Queue[store.Key]) bool {
	state, not := r.notServed()
	if !not || r.sources[0].object(key) == nil {
		return false
	}
	if r.stopping.Err() != nil {
		queue.Fail(errNotServed) // the error of Run names the key
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resumed == nil {
		resumed := make(chan struct{})
		r.resumed = resumed
		r.waiters.Go(func() {
			select {
			case <-r.sources[0].of().Changed(state): // then each key is looked at again
			case <-r.stopping.Done():
			case <-r.filled.Done():
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.resumed = nil
			close(resumed)
		})
	}
	queue.Hold(r.resumed)
	return true
}
