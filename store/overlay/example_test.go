package overlay_test

import (
	"fmt"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/overlay"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The program reads its own write before the watch delivers it.
func Example() {
	pod := func(resourceVersion, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1", ResourceVersion: resourceVersion},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	cache := store.New(store.ObjectKey[*corev1.Pod])
	if err := cache.Replace([]*corev1.Pod{pod("10", "")}, "10"); err != nil {
		panic(err)
	}
	pods := overlay.New(cache, 0)
	defer pods.Close()
	byNode, err := overlay.AddIndex(pods, "node", func(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} })
	if err != nil {
		panic(err)
	}
	on := func(node string) (n int) {
		for range byNode.Get(node) {
			n++
		}
		return n
	}

	if err := pods.Wrote(pod("11", "node-1")); err != nil { // as the server returned it
		panic(err)
	}
	fmt.Println(on("node-1"), on(""), pods.Pending())

	// Another client deletes the pod. A second report of the write does not restore it.
	if err := cache.Delete(pod("12", "node-1")); err != nil {
		panic(err)
	}
	if err := pods.Wrote(pod("11", "node-1")); err != nil {
		panic(err)
	}
	fmt.Println(on("node-1"), pods.Pending())
	// Output:
	// 1 0 1
	// 0 0
}
