// Package shim is a program that runs Kubernetes' garbage collector and its controller of namespaces, as kube-controller-manager does, until it is
// interrupted. The tests build it in a
// module of their own. Its argument is a kubeconfig.
package shim

import (
	"context"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1
	clients := kubernetes.NewForConfigOrDie(config)
	metadataClient := metadata.NewForConfigOrDie(config)
	started := make(chan struct{})
	close(started)
	collector, err := garbagecollector.NewGarbageCollector(ctx, clients, metadataClient,
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients.Discovery())), garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(informers.NewSharedInformerFactory(clients, 0), metadatainformer.NewSharedInformerFactory(metadataClient, 0)), started)
	if err != nil {
		log.Fatal(err)
	}
	const period = 30 * time.Second
	factory := informers.NewSharedInformerFactory(clients, 0)
	namespaces := namespace.NewNamespaceController(ctx, clients, metadataClient, clients.Discovery().ServerPreferredNamespacedResources,
		factory.Core().V1().Namespaces(), period, corev1.FinalizerKubernetes)
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { namespaces.Run(ctx, 5) })
	running.Go(func() { collector.Run(ctx, 5, period) })
	running.Go(func() { collector.Sync(ctx, clients.Discovery(), period) })
	running.Wait()
}
