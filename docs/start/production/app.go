// Markers of controller-gen, for the kinds of this file:
// +groupName=example.com
// +versionName=v1

package main

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.1 crd paths=. output:crd:dir=manifests

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/recorder"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/store"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// App asks for the pods of an image.
//
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Ready,type=integer,JSONPath=`.status.readyReplicas`
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              AppSpec `json:"spec"`
	// +optional
	Status AppStatus `json:"status,omitzero"`
}

// AppSpec is the desired state of an App.
type AppSpec struct {
	// Image is the image of the container.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// Replicas is the number of pods.
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
}

// AppStatus is the observed state of an App.
type AppStatus struct {
	// ReadyReplicas is the number of pods that are ready.
	ReadyReplicas int32 `json:"readyReplicas"`
}

const managedBy = "app.kubernetes.io/managed-by"

var (
	appKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	asApps  = metav1.ApplyOptions{FieldManager: name}
)

// operator has what the reconcile function reads and writes.
type operator struct {
	apps        *manager.Objects[*App]
	deployments *manager.Objects[*appsv1.Deployment]
	events      *recorder.Recorder
	seen        sync.Map // from the key of an App to its UID, after this process has read it live
}

// reconcile is the function of docs/start/app, with Events.
func (o *operator) reconcile(ctx context.Context, key store.Key, app *App) (reconcile.Result, error) {
	if app == nil || app.DeletionTimestamp != nil { // Kubernetes deletes its Deployment
		o.seen.Delete(key)
		return reconcile.Result{}, nil
	}
	if uid, _ := o.seen.Load(key); uid != app.UID { // the first list may be old
		live, err := o.apps.Client.In(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && live.UID != app.UID {
			return reconcile.Result{}, nil // the watch brings the change, and so the next call
		} else if err != nil {
			return reconcile.Result{}, err
		}
		o.seen.Store(key, app.UID)
	}
	held, err := o.held(ctx, key, app)
	var deployment *appsv1.Deployment
	if err == nil {
		intent := app.deployment()
		if held != nil {
			intent.UID = held.UID // else the server could apply it to another one, if the cache is behind
		}
		deployment, err = o.deployments.Client.Reapply(ctx, held, intent, asApps)
	}
	of := recorder.Reference(app, appKind)
	if err != nil {
		o.events.Eventf(of, nil, corev1.EventTypeWarning, "ApplyFailed", "Apply", "%v", err)
		return reconcile.Result{}, err // the manager logs it and retries with back-off
	}
	if held == nil {
		o.events.Eventf(of, deployment, corev1.EventTypeNormal, "Applied", "Apply", "Deployment %s has %d replicas", key.Name, app.Spec.Replicas)
	}
	want := write.Copy(app) // all readers of the cache share app
	want.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	_, err = write.Status(ctx, o.apps.Client, app, want)
	return reconcile.Result{}, err
}

// held returns the Deployment of an App, or nil. The cache has only Deployments with our label, so the
// server is asked for one that it lacks: an apply would adopt the Deployment of somebody else.
func (o *operator) held(ctx context.Context, key store.Key, app *App) (*appsv1.Deployment, error) {
	held, found := o.deployments.Informer.Cache().Get(key)
	if !found {
		var err error
		held, err = o.deployments.Client.In(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	if !metav1.IsControlledBy(held, app) {
		return nil, fmt.Errorf("there is a Deployment %s that is not of this App", key)
	}
	return held, nil
}

// deployment returns the fields of the Deployment that the operator owns.
func (a *App) deployment() *appsv1.Deployment {
	labels := map[string]string{"app": a.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: a.Name, Labels: map[string]string{managedBy: name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(a, appKind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &a.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: a.Spec.Image}}},
			},
		},
	}
}
