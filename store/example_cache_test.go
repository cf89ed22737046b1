package store_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubereflector/kubereflector/store"
)

// An index finds objects by a value. It has the type of that value.
func ExampleAddIndex() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	byNode, err := store.AddIndex(pods, "node", func(pod *corev1.Pod) []string {
		return []string{pod.Spec.NodeName}
	})
	if err != nil {
		panic(err)
	}
	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41"), newPod("stock", "node-2", "42"), newPod("cash", "node-1", "40")}, "42")

	for key := range byNode.Get("node-1") {
		fmt.Println(key)
	}
	// Output:
	// shop/cash
	// shop/till
}

// An ordered index also finds objects by a range of values.
func ExampleIndex_Range() {
	type job struct {
		name string
		due  int
	}
	jobs := store.New(func(j job) (store.Key, error) { return store.Key{Name: j.name}, nil })
	byDue, err := store.AddIndex(jobs, "due", func(j job) []int { return []int{j.due} })
	if err != nil {
		panic(err)
	}
	_ = jobs.Add(job{"sweep", 30})
	_ = jobs.Add(job{"open", 8})
	_ = jobs.Add(job{"lunch", 12})

	for _, j := range byDue.Range(0, 20) {
		fmt.Println(j.due, j.name)
	}
	// Output:
	// 8 open
	// 12 lunch
}

// A snapshot is one state of the cache, and never changes.
func ExampleCache_Snapshot() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41")}, "41")

	before := pods.Snapshot()
	_ = pods.Add(newPod("stock", "node-2", "42"))

	fmt.Println("then", before.Len(), "at", before.ResourceVersion())
	fmt.Println("now", pods.Len(), "at", pods.ResourceVersion())
	// Output:
	// then 1 at 41
	// now 2 at 42
}
