package reflector_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The reflectors of several shards share one watch, even if the API server does not select shards.
// By default it does not.
func ExampleWithShard_sharedWatch() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	for n := range 100 {
		if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("site-", n)}}); err != nil {
			panic(err)
		}
	}
	clientset := kubernetes.NewForConfigOrDie(server.Config())

	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	sites := client.SharedWatch(clientset.CoreV1().ConfigMaps(""))
	held := 0
	for _, shard := range store.Shards(store.ByUID, 16)[:4] {
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New(sites, maps, reflector.WithShard(shard))
		running.Go(func() {
			if err := r.Run(ctx); err != nil {
				panic(err)
			}
		})
		<-r.Synced()
		held += maps.Len()
	}
	fmt.Println("some objects:", 0 < held && held < 100)
	stop()
	running.Wait()
	// Output:
	// some objects: true
}
