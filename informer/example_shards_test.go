package informer_test

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Shards of a resource come and go in one informer, while it runs.
func ExampleAddScope_shards() {
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
	maps := informer.NewScoped(store.ObjectKey[*corev1.ConfigMap])
	for _, shard := range shards {
		if err := informer.AddScope(maps, store.Scope{Shard: shard}, client); err != nil {
			panic(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- maps.Run(ctx) }()
	if err := maps.WaitForSync(ctx); err != nil {
		panic(err)
	}
	fmt.Println(maps.Cache().Len(), "of two shards")

	if err := maps.DropScope(store.Scope{Shard: shards[1]}); err != nil {
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
