package informer

import (
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Covers reports whether the cache would hold an existing object under a key. It returns false
// if the key is in no scope of an informer of package scoped, or in a scope whose first list is
// not complete. It also returns false if the scope, or the reflector, is restricted to shards:
// another process may be responsible for the object. Covers ignores the label selector of
// WithReflector.
func (i *Informer[T]) Covers(key store.Key) bool {
	for _, s := range i.feed.Sources() {
		if s.Gone != nil && (!s.IsSynced() || s.Scope.Cluster != key.Cluster || s.Scope.Namespace != "" && s.Scope.Namespace != key.Namespace) {
			continue
		}
		if r, ok := s.Feed.(interface{ Shards() []store.Shard }); !ok || len(r.Shards()) == 0 {
			return true
		}
	}
	return false
}

// Selects reports whether the cache may come to hold an object in the given state. It returns false
// only if that is certain: the object is in no scope of an informer of package scoped, or the
// selectors of the reflector exclude it. See [reflector.KubernetesResourceReflector.Selects].
func (i *Informer[T]) Selects(object metav1.Object) bool {
	for _, s := range i.feed.Sources() {
		if namespace := s.Scope.Namespace; namespace != "" && namespace != object.GetNamespace() {
			continue
		}
		if of, ok := s.Feed.(interface{ Selects(metav1.Object) bool }); !ok || of.Selects(object) {
			return true
		}
	}
	return false
}

// ClusterScoped reports whether the objects have no namespaces, if the informer's clients know that
// before the first object: see [reflector.KubernetesResourceReflector.ClusterScoped].
func (i *Informer[T]) ClusterScoped() bool {
	sources := i.feed.Sources()
	for _, s := range sources {
		if of, ok := s.Feed.(interface{ ClusterScoped() bool }); !ok || !of.ClusterScoped() {
			return false
		}
	}
	return len(sources) > 0
}
