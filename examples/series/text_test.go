package series_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newTextPod makes a pod of namespace default on a node.
func newTextPod(name, version, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: version},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// both runs a test of a weakness with the model's type, and then with the library's.
func both(t *testing.T, model, library func(t *testing.T)) {
	t.Helper()
	t.Run("the model", model)
	t.Run("the library", library)
}
