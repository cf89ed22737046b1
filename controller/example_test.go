package controller_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// A controller says what to do; lists, watches, queues and retries are not its business.
func ExampleNew() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	if err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}}); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	pods := eventqueue.New(store.ObjectKey[*corev1.Pod])
	attempts := 0
	c := controller.New(reflector.New(clientset.CoreV1().Pods("shop"), pods).Run, pods, controller.Each(
		func(ctx context.Context, event eventqueue.Event[*corev1.Pod]) error {
			attempts++
			if attempts == 1 {
				return errors.New("the till is jammed") // it comes again
			}
			fmt.Println(event.Type, event.Key, "at attempt", attempts)
			stop()
			return nil
		}))
	fmt.Println(c.Run(ctx))
	// Output:
	// Addition shop/till at attempt 2
	// <nil>
}

// Where retrying does not help, say so: the event is reported, and does not come again.
func ExampleWithErrorHandler() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod])
	_ = pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}})
	ctx, stop := context.WithCancel(context.Background())
	c := controller.New(nothing, pods, func(_ context.Context, queue *eventqueue.Queue[*corev1.Pod]) error {
		return eventqueue.Permanent(errors.New("no such till"))
	}, controller.WithErrorHandler(func(_ context.Context, err error) {
		fmt.Println(err)
		stop()
	}))
	fmt.Println(c.Run(ctx), pods.Len())
	// Output:
	// handling "shop/till" failed for good (attempt 1): no such till
	// <nil> 0
}

// nothing is a feed without events.
func nothing(ctx context.Context) error { <-ctx.Done(); return nil }
