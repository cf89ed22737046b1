package factory_test

import (
	"context"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

import informers "github.com/kubereflector/kubereflector/informer/clientgo/factory"

// The program is one of client-go's, with another import.
func Example() {
	server, err := reflectortest.NewServer()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, time.Hour, informers.WithNamespace("shop"))
	pods := factory.Core().V1().Pods().Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	list, err := pods.List(labels.Everything())
	fmt.Println(len(list), "pod(s)", err)
	cancel()
	factory.Shutdown()
	// Output: 1 pod(s) <nil>
}
