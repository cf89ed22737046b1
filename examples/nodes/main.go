// Program nodes lets a reflector fill a store with the nodes of a cluster. It prints the store at each
// change. Reads are local: the nodes are in the memory of the program.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

func main() { cluster.Main(cluster.With(run, demo)) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	// The type of the objects comes from the client: there is nothing to cast.
	nodes := store.New(store.ObjectKey[*corev1.Node])
	r := reflector.New(c.CoreV1().Nodes(), nodes)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() {
		defer stop()
		result <- r.Run(ctx)
	}()

	// Before the first list, an empty store says nothing about the cluster.
	select {
	case <-r.Synced():
	case <-ctx.Done():
	}
	// Nodes have no namespace. Each iteration has a snapshot of the store.
	for snapshot := range nodes.WatchNamespace(ctx, "") {
		fmt.Fprintf(out, "%d nodes at resource version %s\n", snapshot.Len(), snapshot.ResourceVersion())
		for key, node := range snapshot.All() {
			fmt.Fprintf(out, "  %s: %s, takes pods: %t\n", key, node.Labels[corev1.LabelArchStable], !node.Spec.Unschedulable)
		}
	}
	return <-result
}
