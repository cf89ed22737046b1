package ondemand_test

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// The cache has the metadata of all Secrets, and fetches whole Secrets on demand.
func Example() {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	for _, name := range []string{"a", "b", "c"} {
		if err := server.Create(secret(name, "token of "+name)); err != nil {
			panic(err)
		}
	}
	clients := kubernetes.NewForConfigOrDie(server.Config())
	metas := informer.NewMetadata[corev1.Secret](
		metadata.NewForConfigOrDie(server.Config()).Resource(corev1.SchemeGroupVersion.WithResource("secrets")))
	secrets, err := ondemand.New(clients.CoreV1().Secrets, metas.Cache(), ondemand.WithMaxObjects(2))
	if err != nil {
		panic(err)
	}
	defer secrets.Close()

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- metas.Run(ctx) }()
	if err := metas.WaitForSync(ctx); err != nil {
		panic(err)
	}
	for range 3 {
		got, err := secrets.Get(ctx, store.Key{Namespace: "default", Name: "b"})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(got.Data["token"]))
	}
	gets := server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets"))
	fmt.Println(metas.Cache().Len(), "in the cache,", secrets.Stats().Kept, "whole,", len(gets), "request")
	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// token of b
	// token of b
	// token of b
	// 3 in the cache, 1 whole, 1 request
}

// The program caches its own Secrets whole, and the metadata of the others. It fetches the other
// Secrets that it needs.
func ExampleObjects_AddOwned() {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	own := secret("own", "mine")
	own.Labels = map[string]string{"app": "shop"}
	for _, s := range []*corev1.Secret{own, secret("tls", "theirs")} {
		if err := server.Create(s); err != nil {
			panic(err)
		}
	}
	clients := kubernetes.NewForConfigOrDie(server.Config())
	metas := informer.NewMetadata[corev1.Secret](
		metadata.NewForConfigOrDie(server.Config()).Resource(corev1.SchemeGroupVersion.WithResource("secrets")))
	owned := informer.New(clients.CoreV1().Secrets(""),
		informer.WithReflector(reflector.WithLabelSelector(labels.SelectorFromSet(own.Labels))))
	secrets, err := ondemand.New(clients.CoreV1().Secrets, metas.Cache())
	if err != nil {
		panic(err)
	}
	defer secrets.Close()
	secrets.AddOwned(owned.Cache())

	both := manager.New(nil)
	both.Add(metas)
	both.Add(owned)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- both.Run(ctx) }()
	if err := both.WaitForSync(ctx); err != nil {
		panic(err)
	}
	for _, name := range []string{"own", "tls"} {
		got, err := secrets.Get(ctx, store.Key{Namespace: "default", Name: name})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(got.Data["token"]), "after", secrets.Stats().Requests, "request(s)")
	}
	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// mine after 0 request(s)
	// theirs after 1 request(s)
}
