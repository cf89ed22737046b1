// Program app is a small operator. It keeps a Deployment for each App, and reports the ready
// replicas in the status of the App. The pages of docs/start explain it.
package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/store"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// App is a custom resource.
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              AppSpec   `json:"spec"`
	Status            AppStatus `json:"status,omitzero"`
}

// AppSpec is the desired state of an App.
type AppSpec struct {
	Image    string `json:"image"`
	Replicas int32  `json:"replicas"`
}

// AppStatus is the observed state of an App.
type AppStatus struct {
	ReadyReplicas int32 `json:"readyReplicas"`
}

var (
	appKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	asApps  = metav1.ApplyOptions{FieldManager: "apps"}
)

func main() {
	ctx, stop := manager.SignalContext(context.Background())
	defer stop()
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // KUBECONFIG, ~/.kube/config or the pod
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		err = run(ctx, config)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run runs the operator until ctx ends.
func run(ctx context.Context, config *rest.Config) error {
	m := manager.New(config)
	apps, err := manager.For[*App](m, manager.Selection{Kind: appKind})
	if err != nil {
		return err
	}
	deployments, err := manager.For[*appsv1.Deployment](m, manager.Selection{})
	if err != nil {
		return err
	}
	var seen sync.Map // from the key of an App to its UID, after this process has read it live
	manager.Reconcile(m, "apps", apps.Informer,
		func(ctx context.Context, key store.Key, app *App) (reconcile.Result, error) {
			if app == nil || app.DeletionTimestamp != nil { // Kubernetes deletes its Deployment
				seen.Delete(key)
				return reconcile.Result{}, nil
			}
			if uid, _ := seen.Load(key); uid != app.UID { // the first list may be old
				live, err := apps.Client.In(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) || err == nil && live.UID != app.UID {
					return reconcile.Result{}, nil // the watch brings the change, and so the next call
				} else if err != nil {
					return reconcile.Result{}, err
				}
				seen.Store(key, app.UID)
			}
			held, found := deployments.Informer.Cache().Get(key)
			if found && !metav1.IsControlledBy(held, app) {
				return reconcile.Result{}, fmt.Errorf("there is a Deployment %s that is not of this App", key)
			}
			intent := app.deployment()
			if found {
				intent.UID = held.UID // else the server could apply it to another one, if the cache is behind
			}
			deployment, err := deployments.Client.Reapply(ctx, held, intent, asApps)
			if err != nil {
				return reconcile.Result{}, err // the manager logs it and retries with back-off
			}
			want := write.Copy(app) // all readers of the cache share app
			want.Status.ReadyReplicas = deployment.Status.ReadyReplicas
			_, err = write.Status(ctx, apps.Client, app, want)
			return reconcile.Result{}, err
		},
		reconcile.Owns(deployments.Informer, appKind.GroupKind()))
	return m.Run(ctx)
}

// deployment returns the fields of the Deployment that the operator owns.
func (a *App) deployment() *appsv1.Deployment {
	labels := map[string]string{"app": a.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: a.Name, Labels: labels,
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
