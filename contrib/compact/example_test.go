package compact_test

import (
	"fmt"

	"github.com/kubereflector/kubereflector/contrib/compact"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A program fills and reads a compact store like a cache. Its indexes belong to the cache of
// packed objects behind it.
func ExampleNew() {
	pods := compact.New(store.ObjectKey[*corev1.Pod])
	byNode, err := store.AddIndex(pods.Cache(), "node", compact.By(func(pod *corev1.Pod) []string {
		return []string{pod.Spec.NodeName}
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"web", "db"} {
		err := pods.Add(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       corev1.PodSpec{NodeName: "node-1"},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	web, ok := pods.Get(store.Key{Namespace: "shop", Name: "web"})
	fmt.Println(web.Name, ok)
	for key, pod := range compact.Objects(byNode.Get("node-1")) {
		fmt.Println(key, "on", pod.Spec.NodeName)
	}
	// Output:
	// web true
	// shop/db on node-1
	// shop/web on node-1
}
