package shard_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/shard"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Each shard has a reconciler of its own, for as long as it is held. This one is the only
// member, and so holds all of them.
func ExampleWorking() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	var sites sync.WaitGroup
	for _, namespace := range []string{"blue", "green", "red"} {
		sites.Add(1)
		site := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "site"}}
		if err := server.Create(site); err != nil {
			panic(err)
		}
	}

	group := shard.Group{Namespace: "default", Name: "sites", Shards: 3}
	parts := store.Shards(store.ByNamespace, group.Shards)
	member, err := shard.New(clientset.CoordinationV1(), group, "pod-1", // usually the pod's name
		shard.Working(func(_ context.Context, s shard.Shard) (shard.Work, error) {
			maps := informer.New(clientset.CoreV1().ConfigMaps(""),
				informer.WithReflector(reflector.WithShard(parts[s.Index])))
			r := reconcile.New("sites", maps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
				s, _ := shard.FromContext(ctx)
				fmt.Println(key, "is in shard", s)
				sites.Done()
				return reconcile.Result{}, nil
			})
			return shard.Work{Caches: maps, Led: r}, nil
		}))
	if err != nil {
		panic(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		sites.Wait()
		stop() // usually it goes on
	}()
	fmt.Println(member.Run(ctx))
	// Unordered output:
	// green/site is in shard 0/3
	// red/site is in shard 1/3
	// blue/site is in shard 2/3
	// <nil>
}
