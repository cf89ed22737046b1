// Program samplecontroller is the sample controller of the Kubernetes project. For each Foo it creates
// and repairs a Deployment, and writes a status. Foo is a struct, without generated code. A cluster
// needs the resource of crd.yaml.
package main

import (
	"context"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

func main() { cluster.Main(cluster.With(control, demonstrate), custom) }

// sample is the controller.
type sample struct {
	cluster.Cluster
	client      *client.Resource[*Foo]
	foos        *informer.Informer[*Foo]
	deployments *informer.Informer[*appsv1.Deployment]
	byFoo       *store.Index[store.Key, *appsv1.Deployment]
	recorder    record.EventRecorder
}

// control runs the controller until ctx ends.
func control(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
	resource, err := client.ForResource[*Foo](c.Config, foos, "")
	if err != nil {
		return err
	}
	s := &sample{Cluster: c, client: resource, foos: informer.New(resource), deployments: informer.New(c.AppsV1().Deployments(""))}
	owner := reconcile.OwnerKeys[*appsv1.Deployment](kind.GroupKind())
	if s.byFoo, err = store.AddIndexFunc(s.deployments.Cache(), "foo", owner, store.Key.Compare); err != nil {
		return err
	}
	// As the original. Package recorder also writes the Events that are pending at the end.
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: c.CoreV1().Events("")})
	s.recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "samplecontroller"})

	all := manager.New(nil)
	all.Add(s.foos)
	all.Add(s.deployments)
	all.AddLeaderElected(reconcile.New("foos", s.foos, s.reconcile,
		reconcile.Watch(s.deployments, owner),
		reconcile.WithWorkers(2),
		reconcile.WithTimeout(time.Minute))) // a server that does not answer must not keep a worker
	return all.Run(ctx)
}
