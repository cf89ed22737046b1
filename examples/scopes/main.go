// Program scopes has one informer of two clusters: all namespaces of west, and the
// namespaces of east that are requested at run time. There is one cache, one handler, and
// a watch for each scope. An object that leaves is a deletion.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
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

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	west, closeWest, err := start("shop/till", "bank/vault")
	if err != nil {
		return err
	}
	defer closeWest()
	east, closeEast, err := start("shop/stall", "bank/safe", "farm/barn")
	if err != nil {
		return err
	}
	defer closeEast()

	scopes := scoped.New(store.ObjectKey[*corev1.Pod])
	pods := scopes.Informer()
	told := make(chan eventqueue.Event[*corev1.Pod])
	pods.Handle(informer.HandlerFunc[*corev1.Pod](func(_ context.Context, event eventqueue.Event[*corev1.Pod]) error {
		told <- event
		return nil
	}))
	result := make(chan error, 1)
	go func() { result <- pods.Run(ctx) }()

	eastern := func(namespace string) store.Scope { return store.Scope{Cluster: "east", Namespace: namespace} }
	for _, step := range []struct {
		what   string
		events int
		do     func() error
	}{
		{"All of west", 2, func() error {
			return scoped.Add(scopes, store.Scope{Cluster: "west"}, west.CoreV1().Pods(""))
		}},
		{"Of east, the shop", 1, func() error {
			return scoped.Add(scopes, eastern("shop"), east.CoreV1().Pods("shop"))
		}},
		{"Of east, the bank too", 1, func() error {
			return scoped.Add(scopes, eastern("bank"), east.CoreV1().Pods("bank"))
		}},
		{"The shop of east no more", 1, func() error { return scopes.Drop(eastern("shop")) }},
	} {
		fmt.Fprintln(out, step.what+":")
		if err := step.do(); err != nil {
			return err
		}
		for range step.events {
			event := <-told
			fmt.Fprintf(out, "  %v of %v\n", event.Type, event.Key)
		}
	}
	fmt.Fprintln(out, "In every bank:")
	for key := range pods.Cache().Namespace("bank") {
		fmt.Fprintf(out, "  %v\n", key)
	}
	stop()
	return <-result
}

// start starts an API server in memory that holds pods.
func start(pods ...string) (kubernetes.Interface, func(), error) {
	server, err := reflectortest.NewServer()
	if err != nil {
		return nil, nil, err
	}
	for _, pod := range pods {
		namespace, name, _ := strings.Cut(pod, "/")
		if err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			return nil, nil, err
		}
	}
	clientset, err := kubernetes.NewForConfig(server.Config())
	return clientset, server.Close, err
}
