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
