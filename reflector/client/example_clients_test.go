package client_test

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Lamp is a custom resource: a struct with metadata and JSON tags.
type Lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	On                bool `json:"on"`
}

var lamps = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "lamps"}

// serveLamps returns an API server in memory with one lamp.
func serveLamps() *reflectortest.Server {
	server, err := reflectortest.NewServer(reflectortest.WithResource(reflectortest.Resource{
		Group: lamps.Group, Version: lamps.Version, Kind: "Lamp", Plural: lamps.Resource, Namespaced: true, Prototype: &Lamp{},
	}))
	if err != nil {
		panic(err)
	}
	lamp := &Lamp{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "desk", Labels: map[string]string{"room": "office"}}, On: true}
	if err := server.Create(lamp); err != nil {
		panic(err)
	}
	return server
}

// fill runs a reflector until the store is filled.
func fill[T reflector.Object, L any](resource reflector.Client[T, L], s store.Store[T], opts ...reflector.Option) {
	ctx, stop := context.WithCancel(context.Background())
	r := reflector.New(resource, s, opts...)
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()
	<-r.Synced()
	stop()
	if err := <-result; err != nil {
		panic(err)
	}
}

// The client decodes the server's bytes straight into the struct.
func ExampleForResource() {
	server := serveLamps()
	defer server.Close()
	resource, err := client.ForResource[*Lamp](server.Config(), lamps, "shop")
	if err != nil {
		panic(err)
	}
	cache := store.New(store.ObjectKey[*Lamp])
	fill(resource, cache)
	for _, lamp := range cache.All() {
		fmt.Println(lamp.Kind, lamp.Name, lamp.On)
	}
	// Output: Lamp desk true
}

// The program knows only the kind. Discovery finds the resource.
func ExampleFor() {
	server := serveLamps()
	defer server.Close()
	resource, err := client.For[*Lamp](server.Config(), client.WithKind(lamps.GroupVersion().WithKind("Lamp")))
	if err != nil {
		panic(err)
	}
	resource = resource.In("shop")
	list, err := resource.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(len(list.Items), "lamp")
	// Output: 1 lamp
}

// A factory knows types only at run time. Its caches hold an interface.
func ExampleForType() {
	server := serveLamps()
	defer server.Close()
	for _, example := range []runtime.Object{&unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}} {
		resource, err := client.ForType[metav1.Object](server.Config(), lamps, example)
		if err != nil {
			panic(err)
		}
		cache := store.New(store.ObjectKey[metav1.Object])
		fill(resource, cache)
		for key, lamp := range cache.All() {
			fmt.Printf("%s %T\n", key, lamp)
		}
	}
	// Output:
	// shop/desk *unstructured.Unstructured
	// shop/desk *v1.PartialObjectMetadata
}

// Objects without a Go type, by client-go's dynamic client.
func ExampleDynamic() {
	server := serveLamps()
	defer server.Close()
	resource, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	cache := store.New(store.ObjectKey[*unstructured.Unstructured])
	fill(client.Dynamic(resource.Resource(lamps)), cache)
	for key, lamp := range cache.All() {
		fmt.Println(key, lamp.Object["on"])
	}
	// Output: shop/desk true
}

// Only the metadata of selected objects, by client-go's metadata client.
func ExampleMetadata() {
	server := serveLamps()
	defer server.Close()
	resource, err := metadata.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	for _, room := range []string{"office", "hall"} {
		cache := store.New(store.ObjectKey[*metav1.PartialObjectMetadata])
		fill(client.Metadata(resource.Resource(lamps)), cache, reflector.WithLabelSelector(labels.Set{"room": room}.AsSelector()))
		fmt.Println(room, cache.Len())
	}
	// Output:
	// office 1
	// hall 0
}
