// Program mismatch does not compile: the client is one of Deployments, the store
// is one of Pods.
package main

import (
	"context"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

func main() {
	var clientset kubernetes.Interface
	_ = reflector.New(clientset.AppsV1().Deployments("default"), store.New(store.ObjectKey[*corev1.Pod])).Run(context.Background())
}
