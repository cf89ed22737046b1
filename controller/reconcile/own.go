package reconcile

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// maxOwn is the number of remembered own writes for a key, to recognize their events. It is also
// the number of kept events during a call.
const maxOwn = 16

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

// keep reports whether to ignore an event for now: it shows an own write of the key, or a running
// call has to end first to decide that.
func (r *run) keep(t trigger) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[t.key]
	switch {
	case s == nil:
		return false
	case s.running && len(s.during) < maxOwn:
		s.during = append(s.during, t)
		return true
	}
	own := s.shows(t)
	r.tidyLocked(t.key, s)
	return own
}

// shows reports whether an event shows only an own write. It forgets the writes that will have no
// event any more.
func (s *state) shows(t trigger) bool {
	own := slices.Contains(s.own, t.of)
	// The events of an object keep their order. Some writes have no event: a write without a change
	// has the version of an earlier event, and a list shows only the last state.
	s.own = slices.DeleteFunc(s.own, func(own version) bool {
		return own == t.of || own.before(t.of) || t.gone && own.uid == t.of.uid
	})
	if len(s.own) == 0 {
		s.own = nil
	}
	// An object from a list may hide a change of another writer before our last write.
	return own && !t.gone && !t.listed
}

// foreign remembers the writes of a call, and returns the events of other writers during the call.
func (s *state) foreign(wrote []version) []trigger {
	for _, v := range wrote {
		if v.known() && !slices.Contains(s.own, v) {
			s.own = append(s.own, v)
		}
	}
	during := slices.DeleteFunc(s.during, s.shows)
	s.during = nil
	if excess := len(s.own) - maxOwn; excess > 0 {
		s.own = slices.Delete(s.own, 0, excess)
	}
	return during
}

// heardOf returns the written versions for which the sources deliver events.
func (r *run) heardOf(writes []written) []version {
	var all []version
	for _, w := range writes {
		if !w.deleted && slices.ContainsFunc(r.sources, func(source source) bool { return source.has(w) && source.selects(w) }) {
			all = append(all, w.version)
		}
	}
	return all
}
