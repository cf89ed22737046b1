package client_test

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// One client reads and writes. It needs only the type.
func ExampleResource() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	configMaps, err := client.For[*corev1.ConfigMap](server.Config())
	if err != nil {
		panic(err)
	}

	// The object's own namespace counts.
	till := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}, Data: map[string]string{"open": "no"}}
	till, err = configMaps.Create(ctx, till, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	stale := till.DeepCopy()
	till = till.DeepCopy()
	till.Data["open"] = "yes"
	if till, err = configMaps.Update(ctx, till, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(till.Kind, till.Data)
	_, err = configMaps.Update(ctx, stale, metav1.UpdateOptions{})
	fmt.Println("conflict:", apierrors.IsConflict(err))

	// A name needs a namespace.
	shop := configMaps.In("shop")
	till, err = shop.Patch(ctx, "till", types.MergePatchType, []byte(`{"data":{"coins":"7"}}`), metav1.PatchOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(till.Data)
	if err := shop.Delete(ctx, "till", metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
	_, err = shop.Get(ctx, "till", metav1.GetOptions{})
	fmt.Println("gone:", apierrors.IsNotFound(err))
	// Output:
	// ConfigMap map[open:yes]
	// conflict: true
	// map[coins:7 open:yes]
	// gone: true
}
