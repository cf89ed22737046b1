package main

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Order is a custom resource.
type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            OrderStatus `json:"status,omitzero"`
}

// OrderStatus is the observed state of an Order.
type OrderStatus struct {
	Job  string `json:"job,omitempty"`
	Paid bool   `json:"paid,omitempty"`
}

var (
	kind   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Order"}
	custom = reflectortest.WithResource(reflectortest.Resource{
		Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Plural: "orders",
		Namespaced: true, Status: true, Prototype: &Order{},
	})
)

// A charging creates the Job of an Order.
type charging func(ctx context.Context, jobs *client.Resource[*batchv1.Job], order *Order) (*batchv1.Job, error)

// generated lets the server choose the name, which then stands only in the status. If the answer to the
// Create is lost, or the process ends before it has written the status, the Order is charged again.
func generated(ctx context.Context, jobs *client.Resource[*batchv1.Job], order *Order) (*batchv1.Job, error) {
	job := order.job()
	job.GenerateName = order.Name + "-"
	return jobs.Create(ctx, job, metav1.CreateOptions{})
}

// named gives the Job a name that follows from the Order, so the server refuses a second one.
func named(ctx context.Context, jobs *client.Resource[*batchv1.Job], order *Order) (*batchv1.Job, error) {
	job := order.job()
	job.Name = order.Name
	created, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	held, err := jobs.Get(ctx, job.Name, metav1.GetOptions{})
	if err == nil && !metav1.IsControlledBy(held, order) {
		err = fmt.Errorf("the Job %s is not of this Order: delete it", job.Name)
	}
	return held, err
}

// job returns the Job of an Order. By default, Kubernetes would replace a failed pod six times. Even so it
// may start a pod twice, so the payment needs a key: the server of it refuses the second one with this UID.
func (o *Order) job() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, kind)}},
		Spec: batchv1.JobSpec{BackoffLimit: new(int32), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "charge", Image: "charge", Env: []corev1.EnvVar{{Name: "ORDER", Value: string(o.UID)}}}},
		}}},
	}
}
