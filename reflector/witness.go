package reflector

import (
	"slices"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// witness is the object that changed last, as the server sent it. A server that is restored from a
// snapshot loses that change first and reuses its version.
type witness struct {
	key     store.Key // without a name if the object is not known
	version store.Version
	deleted bool
}

func (w *witness) set(key store.Key, version store.Version, deleted bool) {
	if _, ok := source.RevisionOf(version.ResourceVersion); !ok || key.Name == "" {
		*w = witness{}
		return
	}
	*w = witness{key, version, deleted}
}

func (w *witness) note(object metav1.Object, deleted bool) {
	w.set(keyOf(object), store.VersionOf(object), deleted)
}

// list records an object of a list if no earlier object of the list is newer.
func (w *witness) list(object metav1.Object) {
	version, newest := object.GetResourceVersion(), w.version.ResourceVersion
	if w.key.Name == "" || len(version) > len(newest) || len(version) == len(newest) && version > newest {
		w.note(object, false)
	}
}

// selector adds the object to a field selector. The API server then reads a single key, also in a
// request for all namespaces.
func (w *witness) selector(own string) string {
	if w.key.Name == "" {
		return own
	}
	only := fields.Set{"metadata.name": w.key.Name}
	if w.key.Namespace != "" {
		only["metadata.namespace"] = w.key.Namespace
	}
	if own != "" {
		own += ","
	}
	return own + only.AsSelector().String()
}

// contradicts reports whether a listed object proves that the server lost the last change. It
// ignores objects newer than position.
func (w *witness) contradicts(object metav1.Object, position string) bool {
	at, ok := source.RevisionOf(object.GetResourceVersion())
	until, known := source.RevisionOf(position)
	return w.key == keyOf(object) && ok && known && at <= until && (w.deleted || store.VersionOf(object) != w.version)
}

// contradicted reports whether the answer to a probe contradicts the last change. A replay uses the
// recorded result, because the last change may belong to another shard.
func (r *run[T]) contradicted(p source.Page[T]) bool {
	switch position := r.protocol.Position(); {
	case r.protocol.Replayed:
		return p.Conflict
	case r.witness.key.Name == "":
		return false
	case len(p.Items)+len(p.Rejections) == 0 && p.Continue == "" && p.ResourceVersion == position && !r.witness.deleted:
		return true // the server can only have deleted it later
	default:
		return slices.ContainsFunc(p.Items, func(object T) bool { return r.witness.contradicts(object, position) })
	}
}

func keyOf(object metav1.Object) store.Key {
	return store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// witnessed records the last object of the last events.
func (r *run[T]) witnessed() {
	for i := len(r.events) - 1; i >= 0; i-- {
		switch e := &r.events[i]; {
		case e.Type == watch.Bookmark:
		case e.Rejection != nil:
			r.witness.set(e.Rejection.Key, e.Rejection.Version, e.Type == watch.Deleted)
			return
		case e.OutOfShard == 0 && e.Held == nil:
			r.witness.note(e.Object, e.Type == watch.Deleted)
			return
		}
	}
}
