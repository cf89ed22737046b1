package reflector_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
)

// A reflector keeps a store equal to the API server.
func ExampleNew() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	till := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}}
	if err := server.Create(till); err != nil {
		panic(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	pods := store.New(store.ObjectKey[*corev1.Pod])
	r := reflector.New(clientset.CoreV1().Pods("shop"), pods)
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()

	<-r.Synced()
	fmt.Println("pods:", pods.Len())
	stock := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stock"}}
	if err := server.Create(stock); err != nil {
		panic(err)
	}
	if err := await.Object(ctx, pods, stock); err != nil {
		panic(err)
	}
	for key := range pods.All() {
		fmt.Println(key)
	}

	stop()
	fmt.Println(<-result, r.State().Phase)
	// Output:
	// pods: 1
	// shop/stock
	// shop/till
	// <nil> Stopped
}
