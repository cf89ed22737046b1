// Program match compiles: the client and the store are of one type, and nothing
// has to be instantiated by hand.
package main

import (
	"context"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

func main() {
	var clientset kubernetes.Interface
	_ = reflector.New(clientset.CoreV1().Pods("default"), store.New(store.ObjectKey[*corev1.Pod])).Run(context.Background())
	_ = reflector.New(clientset.CoreV1().Nodes(), eventqueue.New(store.ObjectKey[*corev1.Node])).Run(context.Background())
}
