// Program nodes lets a reflector fill a store with the nodes of a cluster that take pods, and prints the
// store at each change. The API server selects the nodes, by a label and by a field. Reads are local: the
// nodes are in the memory of the program.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func main() { cluster.Main(cluster.With(run, demo)) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	oursRunOn, err := labels.Parse(corev1.LabelArchStable + " in (amd64, arm64)")
	if err != nil {
		return err
	}
	takesPods := fields.OneTermEqualSelector("spec.unschedulable", "false")
	// The type of the objects comes from the client: there is nothing to cast.
	nodes := store.New(store.ObjectKey[*corev1.Node])
	r := reflector.New(c.CoreV1().Nodes(), nodes, reflector.WithLabelSelector(oursRunOn), reflector.WithFieldSelector(takesPods))
	return cluster.While(ctx, r.Run, func(ctx context.Context) error {
		// Before the first list, an empty store says nothing about the cluster.
		select {
		case <-r.Synced():
		case <-ctx.Done():
		}
		// Nodes have no namespace. Each iteration has a snapshot of the store.
		for snapshot := range nodes.WatchNamespace(ctx, "") {
			fmt.Fprintf(out, "%d nodes at resource version %s\n", snapshot.Len(), snapshot.ResourceVersion())
			for key, node := range snapshot.All() {
				fmt.Fprintf(out, "  %s: %s\n", key, node.Labels[corev1.LabelArchStable])
			}
		}
		return nil
	})
}
