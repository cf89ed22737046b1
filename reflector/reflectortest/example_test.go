package reflectortest_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// A deletion between a list and a watch is replayed to the watch.
func Example() {
	server, err := reflectortest.NewServer() // in a test: reflectortest.Start(t)
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	pods := client.CoreV1().Pods("default")

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	if err := server.Create(pod); err != nil {
		panic(err)
	}
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	if err := server.Delete(pod); err != nil {
		panic(err)
	}
	watch, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		panic(err)
	}
	defer watch.Stop()
	for range 2 { // a pod without a node is marked, then gone
		event := <-watch.ResultChan()
		fmt.Println(event.Type, event.Object.(*corev1.Pod).Name)
	}
	// Output:
	// MODIFIED web
	// DELETED web
}

// The second list of pods fails once; the record tells how often it was asked.
func ExampleServer_Inject() {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	server.Inject(reflectortest.Answer(410).On("list", "pods").After(1).Times(1))
	for range 3 {
		_, err := client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
		fmt.Println(apierrors.IsResourceExpired(err))
	}
	fmt.Println(len(server.Requests(reflectortest.Verb("list"), reflectortest.ForResource("pods"))), "lists")
	// Output:
	// false
	// true
	// false
	// 3 lists
}

type Book struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Title             string `json:"title"`
}

// Any struct with metadata can be served.
func ExampleWithResource() {
	server, err := reflectortest.NewServer(reflectortest.WithResource(reflectortest.Resource{
		Group: "library.example.com", Version: "v1", Kind: "Book", Plural: "books", Namespaced: true, Prototype: &Book{},
	}))
	if err != nil {
		panic(err)
	}
	defer server.Close()
	book := &Book{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Title: "The Go Programming Language"}
	if err := server.Create(book); err != nil {
		panic(err)
	}
	books, err := reflectortest.List[*Book](server, "default")
	if err != nil {
		panic(err)
	}
	fmt.Println(len(books), books[0].Title, books[0].ResourceVersion)
	// Output: 1 The Go Programming Language 2
}
