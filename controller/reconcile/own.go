package reconcile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// An event that shows only a write of a call for the same key needs no further call. That is certain
// if the write replaced a state that is known: a write without a precondition may have replaced any
// state, and if it changed nothing, the server returns the state of another writer as its result.

// maxOwn is the number of remembered own writes for a key, to recognize their events. It is also
// the number of kept events during a call.
const maxOwn = 16

// ownLife is how long an own write waits for its event. Some have none: a predicate rejects it, or
// the object belongs to other keys. An event that comes later only costs a call.
const ownLife = 5 * time.Minute

// version is one state of one object. The zero version stands for no object.
type version struct{ uid, resourceVersion string }

// known reports whether the version identifies a state.
func (v version) known() bool { return v.uid != "" && v.resourceVersion != "" }

// before reports whether a version is an earlier state of the same object.
func (v version) before(other version) bool {
	if v.uid != other.uid {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(v.resourceVersion, other.resourceVersion)
	return err == nil && order < 0
}

// ownWrite is a write of a call that has had no event yet.
type ownWrite struct {
	version            // of the object that the server returned
	replaced string    // the resource version before the write; empty for a creation
	ended    time.Time // when the call ended
}

// certain returns the own write if it is certain what it replaced, and that it changed something.
// The server ignores a precondition of "0", and may refuse or ignore others that are no numbers.
func (w written) certain() (ownWrite, bool) {
	switch _, err := resourceversion.CompareResourceVersion(w.replaced, w.replaced); {
	case w.deleted || !w.version.known():
		return ownWrite{}, false
	case w.created:
		return ownWrite{version: w.version}, true
	case err != nil || w.replaced == w.version.resourceVersion:
		return ownWrite{}, false
	}
	return ownWrite{version: w.version, replaced: w.replaced}, true
}

// shown reports whether an event shows the write and no other change. The state before a
// modification must be the one that the write replaced. Otherwise the watch left out states, which
// may be those of other writers.
func (w ownWrite) shown(t trigger) bool {
	switch {
	case t.of != w.version || t.listed:
		return false
	case w.replaced == "":
		return t.added
	}
	return t.prior == version{w.uid, w.replaced}
}

// keep reports whether to ignore an event for now: it shows an own write of the key, or a running
// call has to end first to decide that.
func (r *run) keep(t trigger) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[t.key]
	if s == nil {
		return false
	}
	kept := s.keep(t)
	r.tidyLocked(t.key, s)
	return kept
}

func (s *state) keep(t trigger) bool {
	if s.running {
		if len(s.during) < maxOwn {
			s.during = append(s.during, t)
			return true
		}
		s.crowded = true
	}
	return s.shows(t)
}

// shows reports whether an event shows only an own write. It forgets the writes that will have no
// event any more.
func (s *state) shows(t trigger) bool {
	own := slices.ContainsFunc(s.own, func(w ownWrite) bool { return w.shown(t) })
	// The events of an object keep their order. A list shows only the last state, and a version may
	// come again with another content.
	s.forget(func(w ownWrite) bool { return w.version == t.of || w.before(t.of) || t.gone && w.uid == t.of.uid })
	return own
}

// forget forgets some own writes.
func (s *state) forget(which func(ownWrite) bool) {
	if s.own = slices.DeleteFunc(s.own, which); len(s.own) == 0 {
		s.own = nil
	}
}

// foreign ends a call. It remembers the writes of the call, and returns the events of other writers
// during the call.
func (s *state) foreign(wrote []ownWrite) []trigger {
	if !s.crowded { // else the events of these writes may have passed
		s.own = append(s.own, wrote...)
	}
	during := slices.DeleteFunc(s.during, s.shows)
	s.during, s.crowded = nil, false
	if excess := len(s.own) - maxOwn; excess > 0 {
		s.own = slices.Delete(s.own, 0, excess)
	}
	return during
}

// heardOf returns the own writes for which the sources deliver events.
func (r *run) heardOf(writes []written, now time.Time) []ownWrite {
	var all []ownWrite
	for _, w := range writes {
		own, ok := w.certain()
		if ok && slices.ContainsFunc(r.sources, func(source source) bool { return source.has(w) && source.of().Selects(w.object) }) {
			own.ended = now
			all = append(all, own)
		}
	}
	return all
}

// sweepLocked forgets old own writes of all keys, at most once in ownLife. The writes of a key that
// waits for a cache stay: their events are still to come.
func (r *run) sweepLocked(now time.Time) {
	if now.Sub(r.swept) < ownLife {
		return
	}
	r.swept = now
	for key, s := range r.states {
		if s.hold == nil && s.own != nil {
			s.forget(func(w ownWrite) bool { return now.Sub(w.ended) >= ownLife })
			r.tidyLocked(key, s)
		}
	}
}

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
