// Program configmapreplicator copies ConfigMaps to other namespaces. An annotation of the source selects
// the namespaces by their labels. The controller keeps the copies equal to the source.
//
// A user who may annotate a ConfigMap in one namespace thereby writes to the others, so in a cluster of
// several teams, only some namespaces should have sources.
//
//	kubectl annotate configmap settings example.com/copy-to=team=blue
package main

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

func main() { cluster.Main(cluster.With(control, demonstrate)) }

// control runs the controller until ctx ends.
func control(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
	configMaps, err := client.For[*corev1.ConfigMap](c.Config)
	if err != nil {
		return err
	}
	namespaces, err := client.For[*corev1.Namespace](c.Config)
	if err != nil {
		return err
	}
	r := &replicator{client: configMaps, configMaps: informer.New(configMaps), namespaces: informer.New(namespaces)}
	if r.copies, err = store.AddIndexFunc(r.configMaps.Cache(), "source", sourceOf, store.Key.Compare); err != nil {
		return err
	}
	sources, err := store.AddIndex(r.configMaps.Cache(), "is source", func(c *corev1.ConfigMap) []string { return []string{strconv.FormatBool(isSource(c))} })
	if err != nil {
		return err
	}
	reconciler := reconcile.New("configmaps", r.configMaps, r.reconcile,
		reconcile.Watch(r.configMaps, sourceOf), // a copy is its source's business
		reconcile.Watch(r.namespaces, reconcile.ByIndex(sources, func(*corev1.Namespace) []string { return []string{"true"} })),
		reconcile.Where(func(e eventqueue.Event[*corev1.ConfigMap]) bool {
			return isSource(e.Object) || e.PriorKnown && isSource(e.Prior)
		}),
		reconcile.WithTimeout(time.Minute))
	all := manager.New(nil)
	all.Add(r.configMaps)
	all.Add(r.namespaces)
	all.AddLeaderElected(reconciler) // runs in each process if there is no election
	return all.Run(ctx)
}
