package reconcile

import "slices"

// failing is what a key remembers while its calls fail, so that no event of their own writes ends
// the back-off early. A function that writes its error into the status of its object and returns it
// would otherwise be called again for that very write: 3,000 times a minute instead of about 20.
//
// A write counts as own if an event shows its UID and version. Such an event may hide a change of
// another writer, because a write that changes nothing returns the version that the other writer
// made. That change is then reconciled when the back-off ends, and not lost. So this test may be less
// strict than the one of [IgnoreOwnWrites], which drops events.
type failing struct {
	// retried is true from the end of a failed call that reported writes to the beginning of the
	// next call. The queue has the key meanwhile.
	retried bool
	wrote   []written // by the calls since the last success; without their objects
}

// minRemembered is the number of own writes that a failing key remembers at least, beside all of its
// last call. Events of earlier calls seldom come that late.
const minRemembered = 64

// ended records the end of a call. If fails is true, the call is retried after a back-off.
func (f *failing) ended(fails bool, writes []written) {
	if !fails {
		*f = failing{}
		return
	}
	for _, w := range writes {
		if w.version.uid != "" {
			f.wrote = append(f.wrote, written{version: w.version, deleted: w.deleted})
		}
	}
	if excess := len(f.wrote) - max(len(writes), minRemembered); excess > 0 {
		f.wrote = slices.Delete(f.wrote, 0, excess)
	}
	f.retried = len(f.wrote) > 0
}

// caused reports whether the event of a trigger shows a write of the calls that failed, while the
// key waits for its retry.
func (f *failing) caused(t trigger) bool {
	own := slices.ContainsFunc(f.wrote, func(w written) bool {
		return w.version == t.of || w.deleted && w.version.uid == t.of.uid
	})
	// Events of an object come in order, so those of its earlier writes have come.
	f.wrote = slices.DeleteFunc(f.wrote, func(w written) bool { return !w.deleted && w.version.before(t.of) })
	return own && f.retried
}

// hastens reports whether an event may end the back-off of its key early. If not, the queue has the
// key, and the retry after the back-off sees the change.
func (r *run) hastens(t trigger) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[t.key]
	return s == nil || !s.failing.caused(t)
}
