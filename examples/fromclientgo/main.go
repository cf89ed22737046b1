// Program fromclientgo moves a program from client-go's informers to this library in two steps. Each
// step runs with one watch and one cache of pods.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

func main() { cluster.Main(demo) }

// mails is code that is written for client-go and stays as it is.
func mails(out io.Writer, pods cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			fmt.Fprintf(out, "  mails (client-go): %s appeared\n", pod.Name)
		}
	}})
	return err
}

// metrics is code that has moved to this library.
func metrics(out io.Writer, pods *informer.Informer[*corev1.Pod]) {
	pods.Handle(informer.HandlerFuncs[*corev1.Pod]{OnAdd: func(pod *corev1.Pod, _ bool) {
		fmt.Fprintf(out, "  metrics (moved): %s appeared\n", pod.Name)
	}})
}

// firstStep keeps client-go's informer and its watch. Moved code gets a typed informer over it.
func firstStep(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	shared := informers.NewSharedInformerFactory(c, 0).Core().V1().Pods().Informer()
	pods := clientgo.FromSharedInformer(shared, store.ObjectKey[*corev1.Pod])
	metrics(out, pods)
	if err := mails(out, shared); err != nil {
		return err
	}
	go shared.RunWithContext(ctx)
	return pods.Run(ctx)
}

// secondStep replaces the informer. Code that has not moved gets it as client-go's interface.
func secondStep(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	pods := informer.New(c.CoreV1().Pods(""))
	metrics(out, pods)
	if err := mails(out, clientgo.AsSharedIndexInformer(pods)); err != nil {
		return err
	}
	return pods.Run(ctx)
}
