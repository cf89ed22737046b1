package await_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newPod(name, resourceVersion string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: resourceVersion}}
}

// The cache shows a write a little later than the server. The program waits, and reads it.
func ExampleObject() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	_ = pods.Replace(nil, "41")
	written := newPod("till", "42")       // as the server returned it from a create
	go func() { _ = pods.Add(written) }() // a reflector, on its own goroutine

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := await.Object(ctx, pods, written)
	_, found := pods.Get(store.Key{Namespace: "shop", Name: "till"})
	fmt.Println(err, found)
	// Output: <nil> true
}
