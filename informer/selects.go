package informer

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
