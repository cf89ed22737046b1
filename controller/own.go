package controller

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// maxOwn is how many of the last writes for a key are remembered, to know them when
// they come, and how many events that come during a call.
const maxOwn = 16

// version is one state of one object. The zero version is that of none.
type version struct{ uid, resourceVersion string }

// known reports whether the version is told apart from any other.
func (v version) known() bool { return v.uid != "" && v.resourceVersion != "" }

// before reports whether a version is an earlier state of the same object.
func (v version) before(other version) bool {
	if v.uid != other.uid {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(v.resourceVersion, other.resourceVersion)
	return err == nil && order < 0
}

// keep reports whether an event is no reason to reconcile its key now: because it shows
// a write of the key's own, or because that is known only when the call has ended.
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

// shows reports whether an event shows a write of ours, and nothing else. It forgets
// the writes of which there will be no event any more.
func (j *job) shows(t trigger) bool {
	own := slices.Contains(j.own, t.of)
	// The events of an object come in its order. Some never come: that of a write which
	// changed nothing came before, and a list shows only the last.
	j.own = slices.DeleteFunc(j.own, func(own version) bool {
		return own == t.of || own.before(t.of) || t.gone && own.uid == t.of.uid
	})
	if len(j.own) == 0 {
		j.own = nil
	}
	// What a list shows may hide what others did before the last write.
	return own && !t.gone && !t.listed
}

// foreign remembers what a call wrote, and returns what others did during it.
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

// heardOf returns the states that the sources will tell of.
func (s *shift) heardOf(writes []written) []version {
	var all []version
	for _, w := range writes {
		if !w.deleted && slices.ContainsFunc(s.sources, func(source source) bool { return source.has(w) }) {
			all = append(all, w.version)
		}
	}
	return all
}
