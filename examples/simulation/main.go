// Program simulation is an operator that creates one Job for each Order, which charges the customer. The
// example is its test, which plays it under disturbances and finds how it could charge twice.
package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/store"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/rest"
)

func main() { cluster.Main(cluster.InMemoryOnly(cluster.With(control, demo)), custom) }

func control(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
	return run(ctx, c.Config, named)
}

// run runs the operator until ctx ends. It creates the Job of an Order with charge.
func run(ctx context.Context, config *rest.Config, charge charging, opts ...manager.Option) error {
	m := manager.New(config, opts...)
	orders, err := manager.For[*Order](m, manager.Selection{Kind: kind})
	if err != nil {
		return err
	}
	jobs, err := manager.For[*batchv1.Job](m, manager.Selection{})
	if err != nil {
		return err
	}
	manager.Reconcile(m, "orders", orders.Informer,
		func(ctx context.Context, key store.Key, order *Order) (reconcile.Result, error) {
			if order == nil || order.DeletionTimestamp != nil {
				return reconcile.Result{}, nil // Kubernetes deletes the Job
			}
			want := write.Copy(order) // all readers of the cache share order
			if want.Status.Job == "" {
				job, err := charge(ctx, jobs.Client.In(key.Namespace), order)
				if err != nil {
					return reconcile.Result{}, err
				}
				want.Status.Job = job.Name
			}
			if job, ok := jobs.Informer.Cache().Get(store.Key{Namespace: key.Namespace, Name: want.Status.Job}); ok {
				want.Status.Paid = job.Status.Succeeded > 0
			}
			_, err := write.Status(ctx, orders.Client, order, want)
			return reconcile.Result{}, err
		},
		reconcile.Owns(jobs.Informer, kind.GroupKind()))
	return m.Run(ctx)
}
