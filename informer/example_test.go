package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

// serve returns an API server in memory that holds the pods, and a clientset for it.
func serve(pods ...*corev1.Pod) (*reflectortest.Server, kubernetes.Interface) {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	for _, pod := range pods {
		if err := server.Create(pod); err != nil {
			panic(err)
		}
	}
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	return server, clientset
}

// A handler with a function for each kind of event, and an index over the same cache.
func ExampleInformer_Handle() {
	server, clientset := serve(newPod("till", "node-1"))
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	pods := informer.New(clientset.CoreV1().Pods(""))
	subscription := pods.Handle(informer.HandlerFuncs[*corev1.Pod]{
		OnAdd: func(pod *corev1.Pod, initial bool) {
			fmt.Println(pod.Name, "is there")
		},
		OnUpdate: func(prior, pod *corev1.Pod) {
			fmt.Println(pod.Name, "was", prior.Status.Phase, "and is", pod.Status.Phase)
		},
		OnDelete: func(pod *corev1.Pod, finalStateKnown bool) {
			fmt.Println(pod.Name, "is gone")
		},
	})
	byNode, err := store.AddIndex(pods.Cache(), "node", func(pod *corev1.Pod) []string {
		return []string{pod.Spec.NodeName}
	})
	if err != nil {
		panic(err)
	}
	go func() {
		<-subscription.Synced()
		for key := range byNode.Get("node-1") {
			fmt.Println("on node-1:", key)
		}
		stop()
	}()
	err = pods.Run(ctx) // until ctx ends; then handlers finish what is queued
	fmt.Println(err)
	// Output:
	// till is there
	// on node-1: shop/till
	// <nil>
}

// A late subscriber gets the existing objects first.
func ExampleInformer_Subscribe() {
	server, clientset := serve(newPod("till", "node-1"))
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pods := informer.New(clientset.CoreV1().Pods("shop"))
	result := make(chan error, 1)
	go func() { result <- pods.Run(ctx) }()
	<-pods.Synced()

	late := pods.Subscribe()
	for event := range late.Events(ctx) {
		fmt.Println(event.Type, event.Key, "initial:", event.Initial)
		if event.Key.Name == "stock" {
			stop()
		} else if err := server.Create(newPod("stock", "node-2")); err != nil {
			panic(err)
		}
	}
	fmt.Println(<-result)
	// Output:
	// Addition shop/till initial: true
	// Addition shop/stock initial: false
	// <nil>
}
