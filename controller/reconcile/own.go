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
func (s *shift) keep(t trigger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[t.key]
	switch {
	case j == nil:
		return false
	case j.running && len(j.during) < maxOwn:
		j.during = append(j.during, t)
		return true
	}
	own := j.shows(t)
	s.tidyLocked(t.key, j)
	return own
}

// shows reports whether an event shows only an own write. It forgets the writes that will have no
// event any more.
func (j *job) shows(t trigger) bool {
	own := slices.Contains(j.own, t.of)
	// The events of an object keep their order. Some writes have no event: a write without a change
	// has the version of an earlier event, and a list shows only the last state.
	j.own = slices.DeleteFunc(j.own, func(own version) bool {
		return own == t.of || own.before(t.of) || t.gone && own.uid == t.of.uid
	})
	if len(j.own) == 0 {
		j.own = nil
	}
	// An object from a list may hide a change of another writer before our last write.
	return own && !t.gone && !t.listed
}

// foreign remembers the writes of a call, and returns the events of other writers during the call.
func (j *job) foreign(wrote []version) []trigger {
	for _, v := range wrote {
		if v.known() && !slices.Contains(j.own, v) {
			j.own = append(j.own, v)
		}
	}
	during := slices.DeleteFunc(j.during, j.shows)
	j.during = nil
	if excess := len(j.own) - maxOwn; excess > 0 {
		j.own = slices.Delete(j.own, 0, excess)
	}
	return during
}

// heardOf returns the written versions for which the sources will deliver events.
func (s *shift) heardOf(writes []written) []version {
	var all []version
	for _, w := range writes {
		if !w.deleted && slices.ContainsFunc(s.sources, func(source source) bool { return source.has(w) }) {
			all = append(all, w.version)
		}
	}
	return all
}
