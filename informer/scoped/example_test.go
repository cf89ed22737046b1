package scoped_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// serve starts an API server that has pods.
func serve(keys ...string) (*reflectortest.Server, kubernetes.Interface) {
	server, err := reflectortest.NewServer()
	must(err)
	for _, key := range keys {
		namespace, name, _ := strings.Cut(key, "/")
		must(server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	}
	return server, kubernetes.NewForConfigOrDie(server.Config())
}

// One informer has all pods of the cluster west, and those of some namespaces of the cluster east, which
// the program adds and drops while it runs. There is one cache, one handler, and a watch for each scope.
func ExampleNew() {
	westServer, west := serve("shop/till", "bank/vault")
	defer westServer.Close()
	eastServer, east := serve("shop/stall", "bank/safe", "farm/barn")
	defer eastServer.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	scopes := scoped.New(store.ObjectKey[*corev1.Pod])
	pods := scopes.Informer()
	events := make(chan string)
	pods.Handle(informer.HandlerFunc[*corev1.Pod](func(_ context.Context, event eventqueue.Event[*corev1.Pod]) error {
		events <- fmt.Sprintf("%v of %v, out of scope: %t", event.Type, event.Key, event.OutOfScope)
		return nil
	}))
	result := make(chan error, 1)
	go func() { result <- pods.Run(ctx) }()

	must(scoped.Add(scopes, store.Scope{Cluster: "west"}, west.CoreV1().Pods("")))
	fmt.Println(<-events)
	fmt.Println(<-events)
	shop, bank := store.Scope{Cluster: "east", Namespace: "shop"}, store.Scope{Cluster: "east", Namespace: "bank"}
	must(scoped.Add(scopes, shop, east.CoreV1().Pods("shop")))
	fmt.Println(<-events)
	must(scoped.Add(scopes, bank, east.CoreV1().Pods("bank")))
	fmt.Println(<-events)
	must(scopes.Drop(shop)) // its pod still exists
	fmt.Println(<-events)
	for key := range pods.Cache().Namespace("bank") {
		fmt.Println("in a bank:", key)
	}
	stop()
	fmt.Println(<-result)
	// Output:
	// Addition of west|bank/vault, out of scope: false
	// Addition of west|shop/till, out of scope: false
	// Addition of east|shop/stall, out of scope: false
	// Addition of east|bank/safe, out of scope: false
	// Deletion of east|shop/stall, out of scope: true
	// in a bank: east|bank/safe
	// in a bank: west|bank/vault
	// <nil>
}
