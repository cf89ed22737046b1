// Program nodes lets a reflector fill a store with the nodes of a cluster, and prints
// what the store holds whenever that changes. Reads are local: the nodes are in the
// program's own memory.
package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := c.CoreV1().Nodes()

	// The type of the objects comes from the client: there is nothing to cast.
	nodes := store.New(store.ObjectKey[*corev1.Node])
	r := reflector.New(client, nodes)

	var running sync.WaitGroup
	defer running.Wait()
	var reflecting, changing error
	running.Go(func() {
		defer stop()
		reflecting = r.Run(ctx)
	})
	if c.Memory != nil {
		running.Go(func() {
			defer stop()
			changing = change(ctx, client)
		})
	}

	// Until the first list is there, an empty store says nothing.
	select {
	case <-r.Synced():
	case <-ctx.Done():
	}
	// Nodes are in no namespace. Each turn has one moment of the store.
	for moment := range nodes.WatchNamespace(ctx, "") {
		fmt.Fprintf(out, "%d nodes at resource version %s\n", moment.Len(), moment.ResourceVersion())
		for key, node := range moment.All() {
			fmt.Fprintf(out, "  %s: %s, takes pods: %t\n", key, node.Labels[corev1.LabelArchStable], !node.Spec.Unschedulable)
		}
	}

	running.Wait()
	if reflecting != nil {
		return reflecting
	}
	return changing
}

// change gives the API server in memory something to tell.
func change(ctx context.Context, client corev1client.NodeInterface) error {
	node := func(name, architecture string, cordoned bool) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelArchStable: architecture}},
			Spec:       corev1.NodeSpec{Unschedulable: cordoned},
		}
	}
	join := func(name, architecture string) func() error {
		return func() error {
			_, err := client.Create(ctx, node(name, architecture, false), metav1.CreateOptions{})
			return err
		}
	}
	cordon := func(name, architecture string) func() error {
		return func() error {
			_, err := client.Update(ctx, node(name, architecture, true), metav1.UpdateOptions{})
			return err
		}
	}
	leave := func(name string) func() error {
		return func() error { return client.Delete(ctx, name, metav1.DeleteOptions{}) }
	}
	return cluster.Steps(ctx, join("node-1", "amd64"), join("node-2", "arm64"), cordon("node-1", "amd64"), leave("node-1"))
}
