package reflector

import (
	"slices"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// witness is the object that changed last, as the server sent it. A server that is restored from a
// snapshot loses that change first and reuses its version. The fields are byte copies: a string
// could keep the memory of a deleted object in use.
type witness struct {
	namespace, name, uid, version []byte
	deleted                       bool
}

func (w *witness) set(namespace, name, uid, version string, deleted bool) {
	if _, ok := source.RevisionOf(version); !ok || name == "" {
		w.clear()
		return
	}
	w.namespace, w.name = append(w.namespace[:0], namespace...), append(w.name[:0], name...)
	w.uid, w.version = append(w.uid[:0], uid...), append(w.version[:0], version...)
	w.deleted = deleted
}

func (w *witness) clear() { w.name = w.name[:0] }

func (w *witness) note(object metav1.Object, deleted bool) {
	w.set(object.GetNamespace(), object.GetName(), string(object.GetUID()), object.GetResourceVersion(), deleted)
}

// list records an object of a list if no earlier object of the list is newer.
func (w *witness) list(object metav1.Object) {
	version := object.GetResourceVersion()
	if len(w.name) == 0 || len(version) > len(w.version) || len(version) == len(w.version) && version > string(w.version) {
		w.note(object, false)
	}
}

// exists reports whether the last change left an object.
func (w *witness) exists() bool { return len(w.name) > 0 && !w.deleted }

// selector adds the object to a field selector. The API server then reads a single key, also in a
// request for all namespaces.
func (w *witness) selector(own string) string {
	if len(w.name) == 0 {
		return own
	}
	only := fields.Set{"metadata.name": string(w.name)}
	if len(w.namespace) > 0 {
		only["metadata.namespace"] = string(w.namespace)
	}
	if own != "" {
		own += ","
	}
	return own + only.AsSelector().String()
}

// contradicts reports whether a listed object proves that the server lost the last change. It
// ignores objects newer than position.
func (w *witness) contradicts(object metav1.Object, position string) bool {
	if len(w.name) == 0 || object.GetName() != string(w.name) || object.GetNamespace() != string(w.namespace) {
		return false
	}
	at, ok := source.RevisionOf(object.GetResourceVersion())
	until, known := source.RevisionOf(position)
	if !ok || !known || at > until {
		return false
	}
	return w.deleted || string(object.GetUID()) != string(w.uid) || object.GetResourceVersion() != string(w.version)
}

// contradicted reports whether the answer to a probe contradicts the last change. A replay uses the
// recorded result, because the last change may belong to another shard.
func (r *run[T]) contradicted(p source.Page[T]) bool {
	if r.protocol.Replayed {
		return p.Conflict
	}
	if len(p.Items)+len(p.Rejections) == 0 && p.Continue == "" && p.ResourceVersion == r.protocol.Position() && r.witness.exists() {
		return true // the server can only have deleted it later
	}
	return slices.ContainsFunc(p.Items, func(object T) bool { return r.witness.contradicts(object, r.protocol.Position()) })
}

// witnessed records the last object of the last events.
func (r *run[T]) witnessed() {
	for i := len(r.events) - 1; i >= 0; i-- {
		switch e := &r.events[i]; {
		case e.Type == watch.Bookmark:
		case e.Left != nil:
			r.witness.clear()
			return
		case e.Rejection != nil:
			bad := e.Rejection
			r.witness.set(bad.Key.Namespace, bad.Key.Name, string(bad.Version.UID), bad.Version.ResourceVersion, e.Type == watch.Deleted)
			return
		case e.OutOfShard == 0 && e.Held == nil:
			r.witness.note(e.Object, e.Type == watch.Deleted)
			return
		}
	}
}
