package eventqueue_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
)

func newPod(name, node, resourceVersion string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid of " + name), ResourceVersion: resourceVersion},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// A queue has all events of one object since the last acknowledged one.
func ExampleCollection_Queues() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod], eventqueue.WithCompaction(eventqueue.KeepAll))
	_ = pods.Add(newPod("till", "", "1"))
	_ = pods.Add(newPod("stock", "node-2", "2"))
	_ = pods.Update(newPod("till", "node-1", "3"))
	_ = pods.Delete(newPod("stock", "node-2", "4"))

	for queue := range pods.Queues(context.Background()) {
		fmt.Println(queue.Key())
		for event := range queue.Events() {
			fmt.Printf("  %v, on node %q\n", event.Type, event.Object.Spec.NodeName)
		}
		if queue.Key().Name == "stock" {
			queue.Done() // the end of the body acknowledges as well; break alone does not
			break
		}
	}
	// Output:
	// shop/till
	//   Addition, on node ""
	//   Modification, on node "node-1"
	// shop/stock
	//   Addition, on node "node-2"
	//   Deletion, on node "node-2"
}

// The collection delivers a failed queue again, with the events of the meantime.
func ExampleQueue_Fail() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod], eventqueue.WithCompaction(eventqueue.KeepAll))
	_ = pods.Add(newPod("till", "", "1"))

	for queue := range pods.Queues(context.Background()) {
		fmt.Println("attempt", queue.Attempt(), "with", queue.Len(), "event(s)")
		if queue.Attempt() == 1 {
			queue.Fail(errors.New("not now"))
			_ = pods.Update(newPod("till", "node-1", "2")) // news end the back-off
			continue
		}
		queue.Done()
		break
	}
	// Output:
	// attempt 1 with 1 event(s)
	// attempt 2 with 2 event(s)
}

// The collection merges the events of an object that changes often.
func ExampleWithCompaction() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod], eventqueue.WithCompaction(eventqueue.KeepLatest))
	for version := range 50_000 {
		_ = pods.Update(newPod("till", "node-1", fmt.Sprint(version+1)))
	}

	queue, err := pods.Take(context.Background())
	if err != nil {
		panic(err)
	}
	defer queue.Done()
	fmt.Println(queue.Len(), "event:", queue.Newest().Type, "in version", queue.Newest().Object.ResourceVersion)
	// Output: 1 event: Addition in version 50000
}

// Events of a resync have their own origin. A relist makes no events for unchanged objects.
func ExampleCollection_Resync() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod], eventqueue.WithCompaction(eventqueue.KeepAll))
	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "1")}, "1")
	next := func() {
		queue, err := pods.Take(context.Background())
		if err != nil {
			panic(err)
		}
		for event := range queue.Events() {
			fmt.Println(event.Type, event.Key, "by a", event.Origin)
		}
		queue.Done()
	}

	next()
	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "1")}, "2") // a relist without news
	fmt.Println("waiting:", pods.Len())
	pods.Resync()
	next()
	// Output:
	// Addition shop/till by a List
	// waiting: 0
	// Modification shop/till by a Resync
}
