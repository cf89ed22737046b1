package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Site is a web page with a name in the DNS.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              SiteSpec   `json:"spec"`
	Status            SiteStatus `json:"status,omitzero"`
}

// SiteSpec is the desired state.
type SiteSpec struct {
	Host     string `json:"host"`   // the name in the DNS
	Page     string `json:"page"`   // the text of the page
	Secret   string `json:"secret"` // the name of a Secret with the environment of the web server
	Replicas int32  `json:"replicas"`
}

// SiteStatus is the observed state.
type SiteStatus struct {
	Host           string             `json:"host,omitempty"`           // the name that the DNS API has registered
	HostGeneration int64              `json:"hostGeneration,omitempty"` // the generation of the Site with that name
	ReadyReplicas  int32              `json:"readyReplicas"`
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopy returns a copy that shares nothing with the Site.
func (s *Site) DeepCopy() *Site {
	c := *s
	s.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &c
}

// DeepCopyObject makes a Site a runtime.Object, so that Eventf takes it without a recorder.Reference.
func (s *Site) DeepCopyObject() runtime.Object { return s.DeepCopy() }

var siteKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Site"}

// meta returns the metadata of the objects of a Site.
func (s *Site) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{managedBy: name, "site": s.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, siteKind)},
	}
}

// configMap returns the ConfigMap with the page.
func (s *Site) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: s.meta(), Data: map[string]string{"index.html": s.Spec.Page}}
}

// service returns the Service in front of the pods.
func (s *Site) service() *corev1.Service {
	port := corev1.ServicePort{Name: "http", Port: 80, TargetPort: intstr.FromInt32(80), Protocol: corev1.ProtocolTCP}
	return &corev1.Service{
		ObjectMeta: s.meta(),
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"site": s.Name}, Ports: []corev1.ServicePort{port}},
	}
}

// deployment returns the Deployment of the web server. Another page or Secret changes an annotation
// of the pods, so the Deployment replaces them.
func (s *Site) deployment(secret *corev1.Secret) *appsv1.Deployment {
	content, _ := json.Marshal([]any{s.Spec.Page, secret.Data}) // strings and bytes always have JSON
	labels := map[string]string{"site": s.Name}
	page := corev1.LocalObjectReference{Name: s.Name}
	return &appsv1.Deployment{
		ObjectMeta: s.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: &s.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"example.com/content": fmt.Sprintf("%x", sha256.Sum256(content))}},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "web", Image: image, Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
						EnvFrom:      []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}}}},
						VolumeMounts: []corev1.VolumeMount{{Name: "page", MountPath: "/usr/share/nginx/html"}},
					}},
					Volumes: []corev1.Volume{{Name: "page", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: page}}}},
				},
			},
		},
	}
}
