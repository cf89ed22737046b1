package main

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/store"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		reconcile.RecordWrite(ctx, deployment)
		s.recorder.Eventf(foo.reference(), corev1.EventTypeNormal, what, "Deployment %s has %d replicas", want.Name, *want.Spec.Replicas)
	}
	return deployment, err
}

// report writes the status of a Foo, if it changed.
func (s *sample) report(ctx context.Context, foo *Foo, deployment *appsv1.Deployment) error {
	want := write.Copy(foo)
	want.Status.AvailableReplicas = deployment.Status.AvailableReplicas
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: foo.Generation}
	replaced := deployment.Status.ObservedGeneration >= deployment.Generation && deployment.Status.Replicas <= deployment.Status.UpdatedReplicas
	if replaced && want.Status.AvailableReplicas == foo.Spec.Replicas { // and none is of an earlier template
		ready.Status, ready.Reason = metav1.ConditionTrue, "Available"
	}
	meta.SetStatusCondition(&want.Status.Conditions, ready)
	_, err := write.Status(ctx, s.client, foo, want)
	return err
}
