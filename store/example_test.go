package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

// One cache of two namespaces, each with a reflector of its own.
func ExampleCache_Partition() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	shop, err := pods.Partition(store.Scope{Namespace: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	bank, err := pods.Partition(store.Scope{Namespace: "bank"})
	if err != nil {
		fmt.Println(err)
		return
	}

	// What the two reflectors do:
	_ = shop.Replace([]*corev1.Pod{newPod("till", "node-1", "41")}, "42")
	vault := newPod("vault", "node-2", "43")
	vault.Namespace = "bank"
	_ = bank.Replace([]*corev1.Pod{vault}, "44")
	_ = shop.Replace([]*corev1.Pod{newPod("stock", "node-1", "45")}, "46")
	for key := range pods.All() {
		fmt.Println(key)
	}
	fmt.Println("shop at", shop.ResourceVersion(), "and bank at", bank.ResourceVersion())

	_, err = pods.Partition(store.Scope{})
	fmt.Println(errors.Is(err, store.ErrOutOfScope))
	// Output:
	// bank/vault
	// shop/stock
	// shop at 46 and bank at 44
	// true
}

// A program adds and drops the namespaces of its cache.
func ExampleScope() {
	all := store.Scope{Cluster: "west"}
	one := store.Scope{Cluster: "west", Namespace: "shop"}
	fmt.Println(all)
	fmt.Println(one)
	// Output:
	// cluster west
	// namespace west|shop
}

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
func ExampleView_Snapshot() {
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
func ExampleView_Follow() {
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
func ExampleView_WatchKey() {
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

// The cache rejects objects over the budget, and reports them. It keeps the objects that it holds.
func ExampleAddBudget() {
	words := store.New(func(word string) (store.Key, error) { return store.Key{Name: word[:1]}, nil })
	budget, err := store.AddBudget(words, 10, func(word string) int64 { return int64(len(word)) })
	if err != nil {
		panic(err)
	}
	for _, word := range []string{"apple", "pear", "banana", "fig", "ant"} {
		if err := words.Update(word); errors.Is(err, store.ErrOverBudget) {
			fmt.Println("refused:", word)
		}
	}
	fmt.Println(words.Len(), "words of", budget.Bytes(), "bytes")
	// Output:
	// refused: banana
	// refused: fig
	// 2 words of 7 bytes
}
