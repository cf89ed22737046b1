// Program stalled runs client-go's informer and then ours, each with a handler that is stuck while one
// ConfigMap changes a thousand times. It prints the memory that waits for the handler. client-go keeps
// every state, this library the latest one.
package main

import (
	"context"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

func main() { cluster.Main(cluster.InMemoryOnly(demo), shortHistory) }

// shortHistory keeps the memory of the server itself small.
var shortHistory = reflectortest.WithHistory(20)

// subject is an informer with one handler.
type subject struct {
	run func(context.Context) error
	get func(name string) (*corev1.ConfigMap, bool) // reads the cache
}

func clientGo(c cluster.Cluster, handle func(*corev1.ConfigMap)) subject {
	configMaps := informers.NewSharedInformerFactory(c, 0).Core().V1().ConfigMaps()
	_, err := configMaps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { handle(object.(*corev1.ConfigMap)) },
		UpdateFunc: func(_, object any) { handle(object.(*corev1.ConfigMap)) },
	})
	return subject{
		run: func(ctx context.Context) error { configMaps.Informer().RunWithContext(ctx); return err },
		get: func(name string) (*corev1.ConfigMap, bool) {
			configMap, err := configMaps.Lister().ConfigMaps("default").Get(name)
			return configMap, err == nil
		},
	}
}

func ours(c cluster.Cluster, handle func(*corev1.ConfigMap)) subject {
	configMaps := informer.New(c.CoreV1().ConfigMaps(""))
	configMaps.Handle(informer.HandlerFuncs[*corev1.ConfigMap]{
		OnAdd:    func(object *corev1.ConfigMap, _ bool) { handle(object) },
		OnUpdate: func(_, object *corev1.ConfigMap) { handle(object) },
	})
	return subject{run: configMaps.Run, get: func(name string) (*corev1.ConfigMap, bool) {
		return configMaps.Cache().Get(store.Key{Namespace: "default", Name: name})
	}}
}
