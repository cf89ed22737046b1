package clientgo

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"
)

var foos = schema.GroupVersionResource{Group: "foos.example.com", Version: "v1", Resource: "foos"}

// Foo is a custom resource that asks for a deployment of so many replicas, as that of kubernetes/sample-controller.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FooSpec   `json:"spec"`
	Status            FooStatus `json:"status,omitempty"`
}

// FooSpec is what is wanted.
type FooSpec struct {
	DeploymentName string `json:"deploymentName"`
	Replicas       *int32 `json:"replicas"`
}

// FooStatus is what there is.
type FooStatus struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

// DeepCopy is what deepcopy-gen would have made.
func (f *Foo) DeepCopy() *Foo {
	copied := *f
	f.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	if f.Spec.Replicas != nil {
		replicas := *f.Spec.Replicas
		copied.Spec.Replicas = &replicas
	}
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (f *Foo) DeepCopyObject() runtime.Object { return f.DeepCopy() }

// FooLister is what lister-gen would have made.
type FooLister struct{ listers.ResourceIndexer[*Foo] }

// NewFooLister returns a lister of what an indexer holds.
func NewFooLister(indexer cache.Indexer) FooLister {
	return FooLister{listers.New[*Foo](indexer, foos.GroupResource())}
}

// Foos returns a lister of the Foos of one namespace.
func (l FooLister) Foos(namespace string) listers.ResourceIndexer[*Foo] {
	return listers.NewNamespaced(l.ResourceIndexer, namespace)
}

// FooInformer is what informer-gen would have made.
type FooInformer interface {
	Informer() cache.SharedIndexInformer
	Lister() FooLister
}

// fooInformer is a FooInformer of any informer.
type fooInformer struct{ cache.SharedIndexInformer }

func (f fooInformer) Informer() cache.SharedIndexInformer { return f.SharedIndexInformer }
func (f fooInformer) Lister() FooLister                   { return NewFooLister(f.GetIndexer()) }

// fooDefinition is the CustomResourceDefinition of Foos.
func fooDefinition() *unstructured.Unstructured {
	integer := map[string]any{"type": "integer", "format": "int32"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	schema := object(map[string]any{
		"spec":   object(map[string]any{"deploymentName": map[string]any{"type": "string"}, "replicas": integer}),
		"status": object(map[string]any{"availableReplicas": maps.Clone(integer)}),
	})
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": foos.Resource + "." + foos.Group},
		"spec": map[string]any{
			"group": foos.Group,
			"names": map[string]any{"kind": "Foo", "plural": "foos", "singular": "foo"},
			"scope": "Namespaced",
			"versions": []any{map[string]any{
				"name": foos.Version, "served": true, "storage": true,
				"schema":       map[string]any{"openAPIV3Schema": schema},
				"subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}}
}

// everything selects all objects.
var everything = labels.Everything()
