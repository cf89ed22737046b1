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
