package main

import (
	_ "embed"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Foo is a custom resource that asks for a Deployment.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              FooSpec   `json:"spec"`
	Status            FooStatus `json:"status,omitzero"`
}

// FooSpec is the desired state.
type FooSpec struct {
	DeploymentName string `json:"deploymentName"`
	Replicas       int32  `json:"replicas"`
}

// FooStatus is the observed state.
type FooStatus struct {
	AvailableReplicas int32              `json:"availableReplicas"`
	Conditions        []metav1.Condition `json:"conditions,omitempty"`
}

const image = "nginx:1.29"

var (
	foos = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
	kind = schema.GroupVersionKind{Group: foos.Group, Version: foos.Version, Kind: "Foo"}
)

//go:embed crd.yaml
var crd []byte

// custom makes the API server in memory serve Foos.
var custom = reflectortest.WithDefinition(crd, &Foo{})

// deployment returns the Deployment that a Foo wants.
func (f *Foo) deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "foo": f.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: f.Spec.DeploymentName,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(f, kind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &f.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: image}}},
			},
		},
	}
}

// reference returns the object reference by which Events name the Foo.
func (f *Foo) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: f.Namespace, Name: f.Name, UID: f.UID, ResourceVersion: f.ResourceVersion,
	}
}
