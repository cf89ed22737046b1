// Package shim is a program that runs Kubernetes' controller of StatefulSets, as kube-controller-manager does, until it is interrupted. The tests build
// it in a module of their own. Its argument is a kubeconfig.
package shim

import (
	"context"
	"log"
	"os"
	"os/signal"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/controller/statefulset"
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
	f := informers.NewSharedInformerFactory(clients, 0)
	core, apps := f.Core().V1(), f.Apps().V1()
	controller := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), clients)
	f.Start(ctx.Done())
	controller.Run(ctx, 5)
}
