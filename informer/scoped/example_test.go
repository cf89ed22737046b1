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

// One informer adds and drops shards of a resource while it runs.
func ExampleAdd_shards() {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	for n := range 100 {
		if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("map-", n)}}); err != nil {
			panic(err)
		}
	}
	client := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("")

	shards := store.Shards(store.ByUID, 2)
	scopes := scoped.New(store.ObjectKey[*corev1.ConfigMap])
	for _, shard := range shards {
		if err := scoped.Add(scopes, store.Scope{Shard: shard}, client); err != nil {
			panic(err)
		}
	}
	maps := scopes.Informer()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- maps.Run(ctx) }()
	if err := maps.WaitForSync(ctx); err != nil {
		panic(err)
	}
	fmt.Println(maps.Cache().Len(), "of two shards")

	if err := scopes.Drop(store.Scope{Shard: shards[1]}); err != nil {
		panic(err)
	}
	held := maps.Cache().Len()
	fmt.Println("some of one:", 0 < held && held < 100)
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// 100 of two shards
	// some of one: true
}
