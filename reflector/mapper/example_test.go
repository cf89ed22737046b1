package mapper_test

import (
	"context"
	"fmt"
	"os"

	"github.com/kubereflector/kubereflector/reflector/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubereflector/kubereflector/reflector/mapper"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// A program that starts often keeps the resources of its kinds on disk.
func Example() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	if err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}}); err != nil {
		panic(err)
	}
	directory, err := os.MkdirTemp("", "mapper")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(directory)
	config := server.Config()

	start := func() error { // what each process does
		m, err := mapper.OnDisk(config, mapper.WithDirectory(directory))
		if err != nil {
			return err
		}
		pods, err := client.For[*corev1.Pod](config, client.WithRESTMapper(m))
		if err != nil {
			return err
		}
		pods = pods.In("shop")
		till, err := pods.Get(context.Background(), "till", metav1.GetOptions{})
		if err != nil {
			return err
		}
		fmt.Println(till.Kind, till.Name)
		return nil
	}
	for range 2 {
		if err := start(); err != nil {
			panic(err)
		}
		discovery := func(r reflectortest.Request) bool { return r.Verb == "" }
		fmt.Println("asked for its resources:", len(server.Requests(discovery)) > 0)
		server.ForgetRequests()
	}
	// Output:
	// Pod till
	// asked for its resources: true
	// Pod till
	// asked for its resources: false
}
