// Program scopes has one informer of two clusters: all namespaces of west, and namespaces of east that
// it adds and drops at run time. There is one cache, one handler, and a watch for each scope.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

func main() { cluster.Main(cluster.InMemoryOnly(demo)) }

func run(ctx context.Context, out io.Writer, west, east kubernetes.Interface) error {
	scopes := scoped.New(store.ObjectKey[*corev1.Pod])
	pods := scopes.Informer()
	pods.Handle(informer.HandlerFunc[*corev1.Pod](func(_ context.Context, event eventqueue.Event[*corev1.Pod]) error {
		fmt.Fprintf(out, "  %v of %v\n", event.Type, event.Key)
		return nil
	}))
	ofEast := func(namespace string) store.Scope { return store.Scope{Cluster: "east", Namespace: namespace} }
	return cluster.While(ctx, pods.Run, func(ctx context.Context) error {
		return cluster.Steps(ctx,
			cluster.Say(out, "All of west is added:"),
			func() error { return scoped.Add(scopes, store.Scope{Cluster: "west"}, west.CoreV1().Pods("")) },
			cluster.Say(out, "The shop of east is added:"),
			func() error { return scoped.Add(scopes, ofEast("shop"), east.CoreV1().Pods("shop")) },
			cluster.Say(out, "The bank of east is added:"),
			func() error { return scoped.Add(scopes, ofEast("bank"), east.CoreV1().Pods("bank")) },
			cluster.Say(out, "The shop of east is dropped:"),
			func() error { return scopes.Drop(ofEast("shop")) },
			cluster.Say(out, "The namespace bank of all clusters:"),
			func() error {
				for key := range pods.Cache().Namespace("bank") {
					fmt.Fprintf(out, "  %v\n", key)
				}
				return nil
			})
	})
}
