package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
)

// demo plays the users and the Deployment controller, which the in-memory API server does not have.
type demo struct {
	cluster.Cluster
	out         io.Writer
	foos        dynamic.ResourceInterface
	deployments appsv1client.DeploymentInterface
}

// demonstrate changes Foos and Deployments, and shows the reaction of the controller.
func demonstrate(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	writer, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	d := &demo{Cluster: c, out: out, foos: writer.Resource(foos).Namespace("default"), deployments: c.AppsV1().Deployments("default")}
	return cluster.Steps(ctx,
		func() error { return d.create(ctx) },
		func() error { return d.tell(ctx, "A Foo is created") },
		func() error { return d.run(ctx, 2) },
		func() error { return d.tell(ctx, "Its pods run") },
		func() error { return d.patch(ctx, `{"spec":{"replicas":3}}`) },
		func() error { return d.tell(ctx, "It is scaled") },
		func() error { return d.spoil(ctx) },
		func() error { return d.tell(ctx, "Another client changes the Deployment") },
		func() error { return d.deployments.Delete(ctx, "web", metav1.DeleteOptions{}) },
		func() error { return d.tell(ctx, "Another client deletes the Deployment") },
		func() error { return d.patch(ctx, `{"spec":{"deploymentName":"site"}}`) },
		func() error { return d.tell(ctx, "It wants another name") },
		func() error { return d.foos.Delete(ctx, "web", metav1.DeleteOptions{}) },
		func() error { return d.tell(ctx, "It is deleted") },
		func() error { return d.events(ctx) },
	)
}

func (d *demo) create(ctx context.Context) error {
	web := &Foo{TypeMeta: metav1.TypeMeta{APIVersion: foos.GroupVersion().String(), Kind: kind.Kind}}
	web.Name, web.Spec = "web", FooSpec{DeploymentName: "web", Replicas: 2}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(web)
	if err == nil {
		_, err = d.foos.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	}
	return err
}

func (d *demo) patch(ctx context.Context, patch string) error {
	_, err := d.foos.Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// run plays the controller of Deployments.
func (d *demo) run(ctx context.Context, replicas int32) error {
	web, err := d.deployments.Get(ctx, "web", metav1.GetOptions{})
	if err == nil {
		web.Status = appsv1.DeploymentStatus{ObservedGeneration: web.Generation, Replicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas}
		_, err = d.deployments.UpdateStatus(ctx, web, metav1.UpdateOptions{})
	}
	return err
}

// spoil plays a user who changes a Deployment that the controller owns.
func (d *demo) spoil(ctx context.Context) error {
	web, err := d.deployments.Get(ctx, "web", metav1.GetOptions{})
	if err == nil {
		web.Spec.Replicas = new(int32)
		web.Spec.Template.Spec.Containers[0].Image = "httpd"
		_, err = d.deployments.Update(ctx, web, metav1.UpdateOptions{})
	}
	return err
}

// tell prints the state of the Foo and of the Deployments.
func (d *demo) tell(ctx context.Context, what string) error {
	fmt.Fprintf(d.out, "%s:\n", what)
	object, err := d.foos.Get(ctx, "web", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		fmt.Fprintf(d.out, "  no Foo\n")
	case err != nil:
		return err
	default:
		var web Foo
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &web); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  Foo web has %d of %d replicas", web.Status.AvailableReplicas, web.Spec.Replicas)
		for _, c := range web.Status.Conditions {
			fmt.Fprintf(d.out, ", %s=%s (%s)", c.Type, c.Status, c.Reason)
		}
		fmt.Fprintln(d.out)
	}
	list, err := d.deployments.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		fmt.Fprintf(d.out, "  no Deployment\n")
	}
	for _, one := range list.Items {
		fmt.Fprintf(d.out, "  Deployment %s wants %d replicas of %s\n", one.Name, *one.Spec.Replicas, imageOf(&one))
	}
	return nil
}

func imageOf(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }

// events prints the Events that kubectl describe would show for the Foo.
func (d *demo) events(ctx context.Context) error {
	list, err := d.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out, "Events:")
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return a.FirstTimestamp.Compare(b.FirstTimestamp.Time) })
	for _, e := range list.Items {
		fmt.Fprintf(d.out, "  %s %s, %d times: %s: %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Count, e.Reason, e.Message)
	}
	return nil
}
