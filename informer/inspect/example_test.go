package inspect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// A program serves the page beside its other debug pages.
func ExamplePage() {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	if err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till"}}); err != nil {
		panic(err)
	}
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	pods := informer.New(clientset.CoreV1().Pods(""), informer.WithName("pods"))

	page := inspect.New()
	inspect.Add(page, pods)
	mux := http.NewServeMux()
	mux.Handle("/debug/informers/", http.StripPrefix("/debug/informers", page))
	web := httptest.NewServer(mux) // an http.Server: web.RegisterOnShutdown(page.Close)
	defer web.Close()
	defer page.Close()

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		<-pods.Synced()
		response, err := http.Get(web.URL + "/debug/informers/object?informer=pods&namespace=shop&name=till")
		if err != nil {
			panic(err)
		}
		defer response.Body.Close()
		fmt.Println(response.Status, response.Header.Get("Content-Type"))
	}()
	if err := pods.Run(ctx); err != nil {
		panic(err)
	}
	for _, i := range page.State().Informers {
		fmt.Println(i.ID, "holds", i.Objects, "object; its reflector is", i.Reflectors[0].Phase)
	}
	// Output:
	// 200 OK text/html; charset=utf-8
	// pods holds 1 object; its reflector is Stopped
}
