package guard_test

import (
	"fmt"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/guard"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The guard reports a handler that changes a cached object. In a test, guard.Fail(t)
// replaces the Reporter, and an informer replaces the cache:
// informer.WithMutationGuard.
func Example() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	g := guard.Watch("pods", pods, guard.Report(func(err error) { fmt.Println(err) }))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}},
	}
	if err := pods.Add(pod); err != nil {
		panic(err)
	}

	handle := func(key store.Key, pod *corev1.Pod) {
		defer g.Given("image pinner", key, pod)()
		pod.Spec.Containers[0].Image = "nginx:1.29"
	}
	for key, pod := range pods.All() {
		handle(key, pod)
	}
	// Output: pods: cached object "default/web" was changed: spec.containers[0].image was "nginx:1", is "nginx:1.29"; subscriber image pinner had it in hand, and must copy it first
}
