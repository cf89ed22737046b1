package store_test

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubereflector/kubereflector/store"
)

// A cache holds values of any type that have a key; reads run in the order of keys.
func ExampleNew() {
	type book struct{ author, title string }
	books := store.New(func(b book) (store.Key, error) {
		return store.Key{Namespace: b.author, Name: b.title}, nil
	})
	_ = books.Add(book{"Herman Melville", "Moby Dick"})
	_ = books.Add(book{"Charles Dickens", "Bleak House"})

	found, ok := books.Get(store.Key{Namespace: "Herman Melville", Name: "Moby Dick"})
	fmt.Println(found.title, ok)
	for key := range books.All() {
		fmt.Println(key)
	}
	// Output:
	// Moby Dick true
	// Charles Dickens/Bleak House
	// Herman Melville/Moby Dick
}

// All writes of a batch become visible in one commit.
func ExampleBatch() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	batch := pods.BeginBatch(pods, true) // a list, which becomes the content of the cache
	_ = batch.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: newPod("till", "node-1", "41")})
	fmt.Println(batch.Commit("41"))

	batch = pods.BeginBatch(pods, false) // events of a watch
	_ = batch.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: newPod("stock", "node-1", "42")})
	_ = batch.Write(store.Write[*corev1.Pod]{Type: store.Modification, Object: newPod("till", "node-2", "43")})
	_ = batch.Write(store.Write[*corev1.Pod]{Type: store.Deletion, Key: store.Key{Namespace: "shop", Name: "stock"}})
	fmt.Println(pods.Len(), "pod before the commit")
	fmt.Println(batch.Commit("50"), pods.ResourceVersion())
	for key, pod := range pods.All() {
		fmt.Println(key, pod.Spec.NodeName)
	}
	// Output:
	// <nil>
	// 1 pod before the commit
	// <nil> 50
	// shop/till node-2
}

// printer is a follower: it receives the state, and then every commit.
type printer struct{}

func (printer) Start(state *store.Snapshot[*corev1.Pod]) { fmt.Println("begins with", state.Len()) }

func (printer) Commit(commit *store.Commit[*corev1.Pod]) {
	for _, change := range commit.Changes {
		fmt.Println(change.Type, "of", change.Key, "by a", commit.Origin)
	}
}

// A follower receives every commit once.
func ExampleCache_Follow() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41")}, "41")

	stop := pods.Follow(printer{})
	_ = pods.Add(newPod("stock", "node-2", "42"))
	_ = pods.Replace([]*corev1.Pod{newPod("stock", "node-2", "42")}, "50") // till is gone, stock did not change
	stop()
	_ = pods.Add(newPod("cash", "node-2", "51"))
	// Output:
	// begins with 1
	// Addition of shop/stock by a Watch
	// Deletion of shop/till by a List
}

// WatchKey waits for a state of one object, without polling.
func ExampleCache_WatchKey() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	_ = pods.Add(newPod("till", "", "41"))
	key := store.Key{Namespace: "shop", Name: "till"}
	go func() { _ = pods.Update(newPod("till", "node-1", "42")) }() // a reflector, on its own goroutine

	for moment := range pods.WatchKey(context.Background(), key) {
		if pod, ok := moment.Get(key); ok && pod.Spec.NodeName != "" {
			fmt.Println("scheduled to", pod.Spec.NodeName)
			break
		}
	}
	// Output: scheduled to node-1
}

// The cache rejects one object, and stores the others. The error names the rejected object.
func ExampleRejectedError() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	err := pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41"), newPod("", "node-1", "42")}, "42")
	fmt.Println(pods.Len(), "pod;", strings.Contains(err.Error(), store.ErrBadKey.Error()))
	// Output: 1 pod; true
}

// A View reads a cache. Code that has only the View cannot write objects.
func ExampleView() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	view := &pods.View
	_ = pods.Add(newPod("till-1", "node-1", "41"))
	_ = pods.Add(newPod("till-2", "node-1", "42"))
	for key := range view.Namespace("shop") {
		fmt.Println(key)
	}
	// Output:
	// shop/till-1
	// shop/till-2
}
