package informer_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
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
	for event := range late.Consume(ctx) {
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

// A cache of two strings a pod, with a handler that fails once: its event is retried.
func ExampleNewTransformed() {
	server, clientset := serve(newPod("till", "node-1"))
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	type place struct{ name, node string }
	places := informer.NewTransformed(clientset.CoreV1().Pods(""),
		func(pod *corev1.Pod) (place, error) { return place{pod.Name, pod.Spec.NodeName}, nil },
		func(p place) (store.Key, error) { return store.Key{Namespace: "shop", Name: p.name}, nil })
	failed := false
	places.Handle(informer.HandlerFunc[place](func(_ context.Context, event eventqueue.Event[place]) error {
		if !failed {
			failed = true
			return errors.New("not now")
		}
		fmt.Println(event.Object.name, "is on", event.Object.node)
		stop()
		return nil
	}))
	fmt.Println(places.Run(ctx))
	// Output:
	// till is on node-1
	// <nil>
}

// The server sends only the metadata of the pods.
func ExampleNewMetadata() {
	server, _ := serve(newPod("till", "node-1"))
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := metadata.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}

	pods := informer.NewMetadata[corev1.Pod](client.Resource(corev1.SchemeGroupVersion.WithResource("pods")))
	pods.Handle(informer.HandlerFuncs[informer.Metadata[corev1.Pod]]{
		OnAdd: func(pod informer.Metadata[corev1.Pod], _ bool) {
			fmt.Println(pod.Namespace, pod.Name)
			stop()
		},
	})
	fmt.Println(pods.Run(ctx))
	// Output:
	// shop till
	// <nil>
}

// A SyncError has the reason why an informer is not synced.
func ExampleInformer_WaitForSync() {
	server, clientset := serve()
	defer server.Close()
	server.Inject(reflectortest.Answer(403).On("", "pods"))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pods := informer.New(clientset.CoreV1().Pods(""), informer.WithName("pods of the shop"))
	result := make(chan error, 1)
	go func() { result <- pods.Run(ctx) }()

	// Until something has failed; a program would wait for as long as it can.
	for state := pods.State(); state.Err == nil; state = pods.State() {
		<-pods.Changed(state)
	}
	waiting, giveUp := context.WithCancel(ctx)
	giveUp()
	var unsynced *informer.SyncError
	if errors.As(pods.WaitForSync(waiting), &unsynced) {
		fmt.Println(unsynced.Informer, "lacks", len(unsynced.Unsynced), "reflector, which is", unsynced.Unsynced[0].State.Phase)
	}
	stop()
	fmt.Println(<-result)
	// Output:
	// pods of the shop lacks 1 reflector, which is BackingOff
	// <nil>
}

// A subscriber with a predicate gets Additions and Deletions of the accepted objects.
func ExampleInformer_SubscribeFiltered() {
	server, clientset := serve(newPod("till", "node-1"), newPod("stock", "node-2"))
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pods := informer.New(clientset.CoreV1().Pods("shop"))
	onNode1 := pods.SubscribeFiltered(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "node-1" })
	result := make(chan error, 1)
	go func() { result <- pods.Run(ctx) }()

	for event := range onNode1.Consume(ctx) {
		fmt.Println(event.Type, event.Key)
		if event.Type == eventqueue.Deletion {
			stop()
			continue
		}
		if err := server.Update(newPod("till", "node-2")); err != nil {
			panic(err)
		}
	}
	fmt.Println(<-result)
	// Output:
	// Addition shop/till
	// Deletion shop/till
	// <nil>
}
