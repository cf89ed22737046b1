package reflector_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A reflector keeps a store equal to the API server.
func ExampleNew() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	till := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}}
	if err := server.Create(till); err != nil {
		panic(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	pods := store.New(store.ObjectKey[*corev1.Pod])
	r := reflector.New(clientset.CoreV1().Pods("shop"), pods)
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()

	<-r.Synced()
	fmt.Println("pods:", pods.Len())
	stock := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stock"}}
	if err := server.Create(stock); err != nil {
		panic(err)
	}
	if err := await.Object(ctx, pods, stock); err != nil {
		panic(err)
	}
	for key := range pods.All() {
		fmt.Println(key)
	}

	stop()
	fmt.Println(<-result, r.State().Phase)
	// Output:
	// pods: 1
	// shop/stock
	// shop/till
	// <nil> Stopped
}

// State has the phase of a reflector, and the reason why it is not synced.
func ExampleKubernetesResourceReflector_State() {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	if err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}}); err != nil {
		panic(err)
	}
	server.Inject(reflectortest.Answer(403).On("", "pods").Times(2)) // of a watch, and of a list
	ctx, stop := context.WithCancel(context.Background())
	r := reflector.New(clientset.CoreV1().Pods(""), store.New(store.ObjectKey[*corev1.Pod]))
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()

	for state := r.State(); state.Phase != reflector.Watching; state = r.State() {
		if state.Phase == reflector.BackingOff {
			var failure *reflector.Error
			errors.As(state.Err, &failure)
			fmt.Println("may not", failure.Op, apierrors.IsForbidden(failure))
		}
		<-r.Changed(state)
	}
	fmt.Println("synced at resource version", r.State().ResourceVersion)
	stop()
	fmt.Println(<-result)
	// Output:
	// may not list true
	// synced at resource version 2
	// <nil>
}
