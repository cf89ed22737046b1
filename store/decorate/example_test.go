package decorate_test

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
)

func newPod(name, node, resourceVersion string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid of " + name), ResourceVersion: resourceVersion},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// A list arrives in pages. The store keeps unchanged objects, and those that cannot be decoded.
func ExampleBeginList() {
	pods := store.New(store.ObjectKey[*corev1.Pod])
	first, _ := decorate.BeginList[*corev1.Pod](pods)
	for i, pod := range []*corev1.Pod{newPod("till", "node-1", "41"), newPod("stock", "node-1", "42"), newPod("vault", "node-1", "43")} {
		_ = first.Write(store.Write[*corev1.Pod]{Type: store.Addition, Object: pod, Hash: uint64(i + 1)}) // Commit returns the error
	}
	_ = first.Commit("43")

	list, _ := decorate.BeginList[*corev1.Pod](pods)
	defer list.Discard() // if a page fails; after Commit it does nothing
	till, stock := store.Key{Namespace: "shop", Name: "till"}, store.Key{Namespace: "shop", Name: "stock"}
	if pods.Has(till, store.Version{UID: "uid of till", ResourceVersion: "41"}, 1) {
		list.Keep(till) // no object is decoded
	}
	if err := list.Write(store.Write[*corev1.Pod]{Key: stock, Err: errors.New("cannot be decoded")}); err != nil {
		fmt.Println(err) // the store wants no more of this list
		return
	}
	fmt.Println(list.Commit("50"))

	for key := range pods.All() {
		fmt.Println(key)
	}
	fmt.Println("resource version", pods.ResourceVersion())
	// Output:
	// store rejected 1 object(s): "shop/stock": cannot be decoded
	// shop/stock
	// shop/till
	// resource version 43
}

// A cache of two strings a pod. The strings have no resource version, and yet the cache
// knows its own.
func ExampleTransform() {
	type place struct{ name, node string }
	places := store.New(func(p place) (store.Key, error) {
		return store.Key{Namespace: "shop", Name: p.name}, nil
	})
	pods := decorate.Transform(places, store.ObjectKey[*corev1.Pod], func(pod *corev1.Pod) (place, error) {
		if pod.Spec.NodeName == "" {
			return place{}, errors.New("not scheduled")
		}
		return place{pod.Name, pod.Spec.NodeName}, nil
	})

	// What a reflector does:
	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41")}, "42")
	_ = pods.Update(newPod("till", "node-2", "43"))
	err := pods.Add(newPod("stock", "", "44"))

	for key, place := range places.All() {
		fmt.Println(key, "is on", place.node)
	}
	fmt.Println("resource version", places.ResourceVersion())
	fmt.Println(err)
	// Output:
	// shop/till is on node-2
	// resource version 43
	// store rejected 1 object(s): "shop/stock" at resource version "44": transform: not scheduled
}
