package reflectortest

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A StoredObject is one version of an object of any kind, for a test that looks at the whole server.
// Where the type is known, Get and List are shorter.
type StoredObject struct {
	GVR             schema.GroupVersionResource
	GVK             schema.GroupVersionKind
	Namespace, Name string // Namespace is empty for a cluster-scoped kind
	UID             string
	Version         uint64

	record *record
}

// JSON returns the object as the server sends it.
func (o *StoredObject) JSON() []byte { return encoding{}.appendObject(nil, o.record) }

func stored(r *resource, rec *record) *StoredObject {
	if rec == nil {
		return nil
	}
	rec = rec.in(r)
	return &StoredObject{GVR: r.gvr(), GVK: r.gvk(), Namespace: rec.namespace, Name: rec.name, UID: rec.uid, Version: rec.version, record: rec}
}

// Objects returns all objects of all kinds, in the order of discovery, and within a kind in the order
// of a list. An object of a followed definition is there once, in the preferred version.
func (s *Server) Objects() []*StoredObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*StoredObject
	for _, r := range s.registry().ordered {
		if r.secondary {
			continue
		}
		r.history.current.Scan(func(_ string, rec *record) bool {
			all = append(all, stored(r, rec))
			return true
		})
	}
	return all
}

// Change returns what the write with a version did to an object: before is nil for a creation, after
// for a deletion. Both are nil if the resource has no change with that version, or if it was compacted.
func (s *Server) Change(resource schema.GroupVersionResource, version uint64) (before, after *StoredObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.registry().byGVR[resource]
	if r == nil || version == 0 {
		return nil, nil
	}
	changes := r.history.since(version - 1)
	if len(changes) == 0 || changes[0].version != version {
		return nil, nil
	}
	before = stored(r, changes[0].prior)
	if !changes[0].deleted {
		after = stored(r, changes[0].object)
	}
	return before, after
}

// At returns an object as it was at a version, or nil if there was none, or if the version is compacted.
func (s *Server) At(resource schema.GroupVersionResource, namespace, name string, version uint64) *StoredObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.registry().byGVR[resource]
	if r == nil || version < r.history.compacted {
		return nil
	}
	rec, _ := r.history.at(version).Get(r.key(namespace, name))
	return stored(r, rec)
}
