// Program samplecontroller is the sample controller of the Kubernetes project. For each Foo it
// creates a Deployment, keeps the Deployment as the Foo says, and writes a status. Foo is a struct,
// and the program uses no generated code.
//
// On a cluster it needs the resource that crd.yaml describes, and runs until it is interrupted.
// Without a cluster it runs a demo on an API server in memory: see demo.go.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

func main() { cluster.Main(run, custom) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if c.Memory != nil {
		return demonstrate(ctx, out, c)
	}
	return control(ctx, c)
}

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
func control(ctx context.Context, c cluster.Cluster, opts ...reconcile.Option) error {
	resource, err := client.ForResource[*Foo](c.Config, foos, "")
	if err != nil {
		return err
	}
	s := &sample{Cluster: c, client: resource, foos: informer.New(resource), deployments: informer.New(c.AppsV1().Deployments(""))}
	owner := reconcile.OwnerKeys[*appsv1.Deployment](kind.GroupKind())
	if s.byFoo, err = store.AddIndexFunc(s.deployments.Cache(), "foo", owner, store.Key.Compare); err != nil {
		return err
	}
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: c.CoreV1().Events("")})
	s.recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "samplecontroller"})

	all := manager.New(nil)
	all.Add(s.foos)
	all.Add(s.deployments)
	// A server that does not answer must not keep a worker for ever.
	all.Add(reconcile.New("foos", s.foos, s.reconcile, append(opts, reconcile.Watch(s.deployments, owner), reconcile.WithTimeout(time.Minute))...))
	return all.Run(ctx)
}

// reconcile makes the Deployments of a Foo what they should be.
func (s *sample) reconcile(ctx context.Context, key store.Key, foo *Foo) (reconcile.Result, error) {
	for _, d := range s.byFoo.Get(key) {
		if foo != nil && metav1.IsControlledBy(d, foo) && d.Name == foo.Spec.DeploymentName || d.DeletionTimestamp != nil {
			continue
		}
		// The Foo is gone, or is another one, or wants another name.
		if err := write.Delete(ctx, s.AppsV1().Deployments(d.Namespace), d); err != nil {
			return reconcile.Result{}, err
		}
	}
	if foo == nil || foo.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	deployment, err := s.ensure(ctx, foo)
	if err == nil {
		err = s.report(ctx, foo, deployment)
	}
	return reconcile.Result{}, err
}

// ensure creates or repairs the Deployment of a Foo.
func (s *sample) ensure(ctx context.Context, foo *Foo) (deployment *appsv1.Deployment, err error) {
	resource, want, what := s.AppsV1().Deployments(foo.Namespace), foo.deployment(), "Created"
	deployment, ok := s.deployments.Cache().Get(store.Key{Namespace: foo.Namespace, Name: want.Name})
	switch {
	case !ok:
		deployment, err = resource.Create(ctx, want, metav1.CreateOptions{})
	case !metav1.IsControlledBy(deployment, foo):
		s.recorder.Eventf(foo.reference(), corev1.EventTypeWarning, "Taken", "Deployment %s has another owner", want.Name)
		return nil, fmt.Errorf("deployment %s has another owner", want.Name)
	case *deployment.Spec.Replicas == *want.Spec.Replicas && deployment.Spec.Template.Spec.Containers[0].Image == image:
		return deployment, nil
	default:
		what, deployment = "Repaired", deployment.DeepCopy() // the cached one is everybody's
		deployment.Spec.Replicas, deployment.Spec.Template = want.Spec.Replicas, want.Spec.Template
		deployment, err = resource.Update(ctx, deployment, metav1.UpdateOptions{})
	}
	if err == nil {
		reconcile.ExpectWrite(ctx, deployment)
		s.recorder.Eventf(foo.reference(), corev1.EventTypeNormal, what, "Deployment %s has %d replicas", want.Name, *want.Spec.Replicas)
	}
	return deployment, err
}

// report writes the status of a Foo, if it changed.
func (s *sample) report(ctx context.Context, foo *Foo, deployment *appsv1.Deployment) error {
	want := write.Copy(foo)
	want.Status.AvailableReplicas = deployment.Status.AvailableReplicas
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: foo.Generation}
	if want.Status.AvailableReplicas == foo.Spec.Replicas {
		ready.Status, ready.Reason = metav1.ConditionTrue, "Available"
	}
	meta.SetStatusCondition(&want.Status.Conditions, ready)
	_, err := write.Status(ctx, s.client, foo, want)
	return err
}
