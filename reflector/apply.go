package reflector

import (
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// apply writes the last events to the store.
func (r *run[T]) apply() protocol.Input {
	err := r.commit()
	r.status.stored(r.store.ResourceVersion())
	r.witnessed()
	if err == nil {
		return protocol.Input{Kind: protocol.Stored}
	}
	last := &r.events[len(r.events)-1]
	failure := r.newError(OpStore, last.version, err)
	if len(r.events) == 1 && last.kind != watch.Bookmark && last.lacking == nil && last.foreign == 0 && failure.Key == (store.Key{}) && last.object.GetName() != "" {
		failure.Key = store.Key{Namespace: last.object.GetNamespace(), Name: last.object.GetName()}
	}
	return protocol.Input{Kind: protocol.Stored, Err: failure}
}

// commit makes one commit of the last events.
func (r *run[T]) commit() error {
	writes, version := false, ""
	for i := range r.events {
		e := &r.events[i]
		if w, ok := e.write(); ok {
			_ = r.batch.Write(w) // Commit returns the error
			writes, version = true, ""
		} else if e.version != "" {
			version = e.version
		}
	}
	switch {
	case writes:
		return r.batch.Commit(version)
	case version != "":
		return r.store.Bookmark(version)
	}
	return nil
}

// write returns the store write for an event. It returns false if the event needs no write; then
// only its version counts.
func (e *event[T]) write() (store.Write[T], bool) {
	w := store.Write[T]{Object: e.object}
	switch bad, left := e.lacking, e.departed; {
	case left != nil:
		w.Type, w.Key, w.Version, w.OutOfScope = store.Deletion, left.key, left.version, !left.gone
	case e.kind == watch.Bookmark || e.foreign > 0 || e.unchanged != nil:
		return w, false
	case bad == nil && e.kind == watch.Added:
		w.Type = store.Addition
	case bad == nil && e.kind == watch.Modified:
		w.Type = store.Modification
	case bad == nil:
		w.Type, w.FinalStateKnown = store.Deletion, true
	case bad.Key.Name == "":
		// Only a list can show what changed, so the store's version must not pass this event.
		w.Version, w.Err = bad.Version, bad.Err
	case e.kind == watch.Deleted:
		w.Type, w.Key, w.Version = store.Deletion, bad.Key, bad.Version
	default:
		w.Key, w.Version, w.Err = bad.Key, bad.Version, bad.Err
	}
	return w, true
}
