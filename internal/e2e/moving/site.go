package moving

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const finalizer = "example.com/site"

// shape gives a Deployment what a site wants of it.
func shape(deployment *appsv1.Deployment, replicas int32) {
	labels := map[string]string{"site": deployment.Name}
	deployment.Spec.Replicas = &replicas
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1.29"}}
}
