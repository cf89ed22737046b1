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

// Many writes become visible at once, and what they changed is returned.
func ExampleBatch() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41")}, "41")

	var batch store.Batch[*corev1.Pod]
	batch.Add(newPod("stock", "node-1", "42"))
	batch.Update(newPod("till", "node-2", "43"))
	batch.DeleteKey(store.Key{Namespace: "shop", Name: "stock"})
	batch.Bookmark("50")
	changes, err := pods.Commit(&batch)
	for _, change := range changes {
		fmt.Println(change.Type, change.Key)
	}
	fmt.Println(err, pods.ResourceVersion())
	// Output:
	// Addition shop/stock
	// Modification shop/till
	// Deletion shop/stock
	// <nil> 50
}

// printer is a follower: it is told of the state, and then of every commit.
type printer struct{}

func (printer) Start(state *store.Snapshot[*corev1.Pod]) { fmt.Println("begins with", state.Len()) }

func (printer) Commit(commit *store.Commit[*corev1.Pod]) {
	for _, change := range commit.Changes {
		fmt.Println(change.Type, "of", change.Key, "by a", commit.Origin)
	}
}

// Whoever follows a cache misses nothing and hears of nothing twice.
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

// A unique index finds the one object that has a value, and says when there are two.
func ExampleAddUniqueIndex() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	byAddress, err := store.AddUniqueIndex(pods, "address", func(pod *corev1.Pod) (string, bool) {
		return pod.Status.PodIP, pod.Status.PodIP != ""
	}, func(clash store.Clash[string, *corev1.Pod]) {
		fmt.Println(clash.Key, "and", clash.OtherKey, "both have", clash.Value)
	})
	if err != nil {
		panic(err)
	}
	for i, name := range []string{"till", "stock"} {
		pod := newPod(name, "node-1", fmt.Sprint(41+i))
		pod.Status.PodIP = "10.0.0.1"
		_ = pods.Add(pod)
	}
	key, _, found := byAddress.Get("10.0.0.1")
	fmt.Println(key, found)
	// Output:
	// shop/stock and shop/till both have 10.0.0.1
	// shop/stock true
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

// One object that cannot be stored stops no other, and is named.
func ExampleRejectedError() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	err := pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41"), newPod("", "node-1", "42")}, "42")
	fmt.Println(pods.Len(), "pod;", strings.Contains(err.Error(), store.ErrNoName.Error()))
	// Output: 1 pod; true
}

// A View is a cache in the hands of those who may only read it, and add indexes.
func ExampleCache_View() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	view := pods.View()
	_ = pods.Add(newPod("till-1", "node-1", "41"))
	_ = pods.Add(newPod("till-2", "node-1", "42"))
	_ = pods.Add(newPod("vault", "node-1", "43"))
	for key := range view.Prefix(store.Key{Namespace: "shop", Name: "till"}) {
		fmt.Println(key)
	}
	// Output:
	// shop/till-1
	// shop/till-2
}
