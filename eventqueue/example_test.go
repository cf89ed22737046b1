package eventqueue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// By default, the collection merges the events of an object that changes often.
func ExampleNew_merging() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod])
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

// A loop over single events, without their queues.
func ExampleCollection_Consume() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod], eventqueue.WithCompaction(eventqueue.KeepAll))
	_ = pods.Add(newPod("till", "node-1", "1"))
	_ = pods.Add(newPod("stock", "node-2", "2"))
	_ = pods.Delete(newPod("till", "node-1", "3"))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for event := range pods.Consume(ctx) {
		fmt.Println(event.Type, event.Key)
		if pods.Len() == 1 { // this one is the last
			stop()
		}
	}
	// Output:
	// Addition shop/till
	// Deletion shop/till
	// Addition shop/stock
}

// Several workers run, but only one at a time has an object. The collection calls a failed handler
// again, unless its error is permanent.
func ExampleCollection_ProcessEach() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod], eventqueue.WithCompaction(eventqueue.KeepAll))
	_ = pods.Add(newPod("till", "node-1", "1"))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	failed := false
	pods.ProcessEach(ctx, 4, func(_ context.Context, event eventqueue.Event[*corev1.Pod]) error {
		if !failed {
			failed = true
			return errors.New("not now")
		}
		stop()
		return eventqueue.Permanent(errors.New("never"))
	}, func(_ context.Context, err *eventqueue.HandlerError) {
		fmt.Println("attempt", err.Attempt, "at", err.Key, "failed:", err.Err)
	})
	fmt.Println("left:", pods.Len(), "given up:", pods.Stats().GivenUp)
	// Output:
	// attempt 1 at shop/till failed: not now
	// attempt 2 at shop/till failed: never
	// left: 0 given up: 1
}

// Two collections follow one cache. Each delivers every event, at its own pace.
func ExampleFollow() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	all := eventqueue.Follow(pods, eventqueue.WithCompaction(eventqueue.KeepAll))
	onNode1 := eventqueue.FollowFiltered(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "node-1" },
		eventqueue.WithCompaction(eventqueue.KeepAll))
	_ = pods.Add(newPod("till", "node-1", "1"))
	_ = pods.Update(newPod("till", "node-2", "2"))

	for _, collection := range []*eventqueue.Collection[*corev1.Pod]{all, onNode1} {
		queue, err := collection.Take(context.Background())
		if err != nil {
			panic(err)
		}
		for event := range queue.Events() {
			fmt.Println(event.Type, event.Key)
		}
		queue.Done()
	}
	// Output:
	// Addition shop/till
	// Modification shop/till
	// Addition shop/till
	// Deletion shop/till
}

// An orderly stop: first the writer of the collection, then its consumers.
func ExampleCollection_Drain() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod], eventqueue.WithBackoff(time.Hour, time.Hour))
	_ = pods.Add(newPod("till", "node-1", "1"))
	_ = pods.Add(newPod("stock", "node-2", "2"))
	consumed := make(chan struct{})
	go func() {
		defer close(consumed)
		for queue := range pods.Queues(context.Background()) {
			if queue.Key().Name == "till" {
				queue.Fail(errors.New("the till is jammed"))
			}
		}
	}()

	err := pods.Drain(context.Background())
	pods.Close()
	<-consumed
	var left *eventqueue.DrainError
	if errors.As(err, &left) {
		fmt.Println("left:", left.Pending[0].Key, left.Pending[0].Err)
	}
	// Output: left: shop/till the till is jammed
}

// KeepIf delivers each move of a pod, and merges all other events into later ones.
func ExampleCollection_KeepIf() {
	pods := eventqueue.New(store.ObjectKey[*corev1.Pod])
	pods.KeepIf(func(event eventqueue.Event[*corev1.Pod]) bool {
		return !event.PriorKnown || event.Prior.Spec.NodeName != event.Object.Spec.NodeName
	})
	_ = pods.Add(newPod("till", "node-1", "1"))
	_ = pods.Update(newPod("till", "node-1", "2"))
	_ = pods.Update(newPod("till", "node-2", "3"))
	_ = pods.Update(newPod("till", "node-2", "4"))

	queue, err := pods.Take(context.Background())
	if err != nil {
		panic(err)
	}
	for event := range queue.Events() {
		fmt.Println(event.Type, "in version", event.Object.ResourceVersion, "on", event.Object.Spec.NodeName)
	}
	queue.Done()
	// Output:
	// Addition in version 1 on node-1
	// Modification in version 3 on node-2
	// Modification in version 4 on node-2
}

// A work queue of keys. A requeued key comes later; a live key comes first.
func ExampleAdd() {
	keys := eventqueue.New(func(key store.Key) (store.Key, error) { return key, nil })
	eventqueue.AddResync(keys, store.Key{Name: "listed"})
	eventqueue.Add(keys, store.Key{Name: "changed"})

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	again := false
	keys.Process(ctx, 1, func(_ context.Context, queue *eventqueue.Queue[store.Key]) error {
		fmt.Println(queue.Key())
		switch {
		case queue.Key().Name == "listed":
		case again:
			stop()
		default:
			again = true
			eventqueue.AddAfter(keys, queue.Key(), time.Millisecond)
		}
		return nil
	}, nil)
	// Output:
	// changed
	// listed
	// changed
}
