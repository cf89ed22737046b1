package store_test

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/store"
)

func newPod(name, node, resourceVersion string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid of " + name), ResourceVersion: resourceVersion},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// A cache of two strings a pod. Although nothing in them says a version, the cache
// knows how far it is.
func ExampleTransform() {
	type place struct{ name, node string }
	places := store.New(func(p place) (store.Key, error) {
		return store.Key{Namespace: "shop", Name: p.name}, nil
	})
	pods := store.Transform(places, store.ObjectKey[*corev1.Pod], func(pod *corev1.Pod) (place, error) {
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

// A pod that moves to another node leaves the cache.
func ExampleFilter() {
	cache := store.New(store.ObjectKey[*corev1.Pod])
	pods := store.Filter(cache, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "node-1" })

	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41"), newPod("stock", "node-2", "42")}, "42")
	fmt.Println(cache.Len(), "pod at", cache.ResourceVersion())
	_ = pods.Update(newPod("till", "node-2", "43"))
	fmt.Println(cache.Len(), "pods at", cache.ResourceVersion())
	// Output:
	// 1 pod at 42
	// 0 pods at 43
}

// Two caches, each with what it needs, from one reflector.
func ExampleTee() {
	first := store.New(store.ObjectKey[*corev1.Pod])
	all := store.New(store.ObjectKey[*corev1.Pod])
	pods := store.Tee(
		store.Filter(first, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "node-1" }),
		all,
	)

	_ = pods.Replace([]*corev1.Pod{newPod("till", "node-1", "41"), newPod("stock", "node-2", "42")}, "42")
	fmt.Println(first.Len(), "of", all.Len(), "at", pods.ResourceVersion())
	// Output: 1 of 2 at 42
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
	var overlap *store.ScopeError
	fmt.Println(errors.As(err, &overlap), errors.Is(err, store.ErrOverlap))
	// Output:
	// bank/vault
	// shop/stock
	// shop at 46 and bank at 44
	// true true
}

// The namespaces that a program is interested in come and go.
func ExampleScope() {
	all := store.Scope{Cluster: "west"}
	one := store.Scope{Cluster: "west", Namespace: "shop"}
	fmt.Println(all)
	fmt.Println(one)
	// Output:
	// cluster west
	// namespace west|shop
}
