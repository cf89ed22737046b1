package reflector

import (
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Selects reports whether the store may come to hold an object in the given state. It returns false
// in these cases: the label selector does not match, a field selector on the name or the namespace
// does not match, the object is in no shard of [WithShard], or the client is a [client.Resource] of
// another namespace. Selects does not check other fields, nor the namespace of another type of
// client.
func (r *KubernetesResourceReflector[T]) Selects(object metav1.Object) bool {
	namespace := r.source.About().Namespace
	return (namespace == "" || namespace == object.GetNamespace()) && (r.labels == nil || r.labels.Matches(labels.Set(object.GetLabels()))) &&
		(r.fields == nil || mayMatch(r.fields, object)) && r.shards.Has(object)
}

// ClusterScoped reports whether the objects have no namespaces, if that is known: the client is a
// [client.Resource], and has asked discovery.
func (r *KubernetesResourceReflector[T]) ClusterScoped() bool {
	return r.source.About().Scope == source.ClusterScoped
}

// mayMatch reports whether a field selector may match an object. It checks only the name and the
// namespace.
func mayMatch(selector fields.Selector, object metav1.Object) bool {
	known := map[string]string{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}
	for _, r := range selector.Requirements() {
		if value, ok := known[r.Field]; ok && (value == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}
