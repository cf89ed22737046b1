package reflector

import (
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
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
	failure := r.newError(protocol.OpStore, last.ResourceVersion, err)
	if len(r.events) == 1 && last.Type != watch.Bookmark && last.Rejection == nil && last.OutOfShard == 0 && failure.Key == (store.Key{}) && last.Object.GetName() != "" {
		failure.Key = keyOf(last.Object)
	}
	return protocol.Input{Kind: protocol.Stored, Err: failure}
}

// commit makes one commit of the last events.
func (r *run[T]) commit() error {
	writes, version := false, ""
	for i := range r.events {
		e := &r.events[i]
		if w, ok := writeOf(e); ok {
			_ = r.batch.Write(w) // Commit returns the error
			writes, version = true, ""
		} else if e.ResourceVersion != "" {
			version = e.ResourceVersion
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

// writeOf returns the store write for an event. It returns false if the event needs no write; then
// only its version counts.
func writeOf[T Object](e *source.Event[T]) (store.Write[T], bool) {
	w := store.Write[T]{Object: e.Object, Hash: e.Hash}
	switch bad := e.Rejection; {
	case e.Type == watch.Bookmark || e.OutOfShard > 0 || e.Held != nil:
		return w, false
	case bad == nil && e.Type == watch.Added:
		w.Type = store.Addition
	case bad == nil && e.Type == watch.Modified:
		w.Type = store.Modification
	case bad == nil:
		w.Type, w.FinalStateKnown = store.Deletion, true
	case bad.Key.Name == "":
		// Only a list can show what changed, so the store's version must not pass this event.
		w.Version, w.Err = bad.Version, bad.Err
	case e.Type == watch.Deleted:
		w.Type, w.Key, w.Version = store.Deletion, bad.Key, bad.Version
	default:
		w.Key, w.Version, w.Err = bad.Key, bad.Version, bad.Err
	}
	return w, true
}
