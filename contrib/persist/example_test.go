package persist_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/contrib/persist"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

func newConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// program is an informer with a file. It runs twice.
func program(path string, client kubernetes.Interface) error {
	maps, err := persist.Open(path, store.ObjectKey[*corev1.ConfigMap], persist.Options[*corev1.ConfigMap]{
		Resource: "configmaps in shop",
		Cluster:  "the UID of kube-system",
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d objects to begin with, stale: %t\n", maps.Len(), maps.State().Stale)

	shop := informer.NewStored(client.CoreV1().ConfigMaps("shop"), maps)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	result := make(chan error, 1)
	go func() { result <- shop.Run(ctx) }()
	if err := shop.WaitForSync(ctx); err != nil {
		return err
	}
	fmt.Printf("in touch with the server, stale: %t\n", maps.State().Stale)
	stop()
	if err := <-result; err != nil {
		return err
	}
	return maps.Close()
}

// The second process starts with the objects of the first one, and requests no list.
func Example() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	server, err := reflectortest.NewServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = server.Create(newConfigMap("till"))
	_ = server.Create(newConfigMap("stock"))

	for range 2 {
		server.ForgetRequests()
		if err := program(filepath.Join(folder, "configmaps"), client); err != nil {
			fmt.Println(err)
		}
		lists := 0
		for _, r := range server.Requests() {
			if r.Verb == "list" || r.Query.Get("sendInitialEvents") == "true" {
				lists++
			}
		}
		fmt.Println("lists:", lists)
	}
	// Output:
	// 0 objects to begin with, stale: true
	// in touch with the server, stale: false
	// lists: 1
	// 2 objects to begin with, stale: true
	// in touch with the server, stale: false
	// lists: 0
}
