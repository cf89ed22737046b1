package reflectortest

import (
	"fmt"

	"github.com/tidwall/btree"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Convert changes how the server shows the stored objects of a resource, under their UIDs and
// resource versions. The real server does that when a definition gets a default or another
// conversion. resource is a plural name, such as "pods"; of several groups or versions it means all.
// convert changes an object: one of client-go's types, or an *unstructured.Unstructured.
//
// As on the real server, the resource forgets its history, and the watches end: a client that
// resumes one gets 410 Expired, and lists. The watches of other resources are cut off as well, and
// can be resumed. Objects that are written later are stored as they are sent.
func (s *Server) Convert(resource string, convert func(metav1.Object)) error {
	var of []*resourceHistory
	for _, r := range s.registry().ordered {
		if r.Plural == resource && !r.secondary {
			of = append(of, &resourceHistory{resource: r})
		}
	}
	if len(of) == 0 {
		return fmt.Errorf("reflectortest: no resource %q is served: name its plural, as in URLs", resource)
	}
	for {
		s.mu.Lock()
		version := s.version
		for _, r := range of {
			r.state = r.resource.history.current.Copy()
		}
		s.mu.Unlock()
		for _, r := range of { // without the lock, because convert is the caller's
			if err := r.convert(convert); err != nil {
				return err
			}
		}
		if s.show(of, version) {
			return nil
		}
	}
}

// resourceHistory is a resource with the state that it is to show.
type resourceHistory struct {
	resource *resource
	state    *btree.Map[string, *record]
}

func (r *resourceHistory) convert(convert func(metav1.Object)) error {
	for _, rec := range r.state.Values() {
		obj := rec.object()
		convert(obj)
		shown, err := newRecord(rec.resource, obj, rec.version)
		if err != nil {
			return err
		}
		shown.author = rec.author
		r.state.Set(rec.key, shown)
	}
	return nil
}

// show makes the converted states current, unless the server has changed since a version.
func (s *Server) show(of []*resourceHistory, version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != version {
		return false
	}
	// The change of the definition is a write. Without it, a client could resume at the version of
	// its last bookmark.
	s.version++
	for _, r := range of {
		r.resource.history.current = r.state
		r.resource.history.lose(s.version)
	}
	s.wakeLocked()
	close(s.restored)
	s.restored = make(chan struct{})
	return true
}
