package scoped_test

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func serve(pod string) (*reflectortest.Server, kubernetes.Interface) {
	server, err := reflectortest.NewServer()
	if err == nil {
		err = server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod}})
	}
	if err != nil {
		panic(err)
	}
	return server, kubernetes.NewForConfigOrDie(server.Config())
}

// One cache has the objects of two clusters. The program adds and drops scopes while it runs.
func ExampleNew() {
	west, westClient := serve("till")
	defer west.Close()
	east, eastClient := serve("stall")
	defer east.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	scopes := scoped.New(store.ObjectKey[*corev1.Pod])
	if err := scoped.Add(scopes, store.Scope{Cluster: "west"}, westClient.CoreV1().Pods("")); err != nil {
		panic(err)
	}
	if err := scoped.Add(scopes, store.Scope{Cluster: "east"}, eastClient.CoreV1().Pods("")); err != nil {
		panic(err)
	}
	pods := scopes.Informer()
	result := make(chan error, 1)
	go func() { result <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		panic(err)
	}
	for key := range pods.Cache().All() {
		fmt.Println(key)
	}
	if err := scopes.Drop(store.Scope{Cluster: "east"}); err != nil {
		panic(err)
	}
	fmt.Println("left:", pods.Cache().Len())
	stop()
	fmt.Println(<-result)
	// Output:
	// east|shop/stall
	// west|shop/till
	// left: 1
	// <nil>
}
