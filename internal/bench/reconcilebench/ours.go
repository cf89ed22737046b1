package reconcilebench

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
)

func newOurs(config *rest.Config, workers int, w *work) (func(context.Context) error, error) {
	resource, err := client.ForResource[*objects.Application](config, objects.ApplicationResource, "")
	if err != nil {
		return nil, err
	}
	applications := informer.New(resource)
	all := manager.New(nil)
	all.Add(applications)
	all.Add(reconcile.New("applications", applications, func(_ context.Context, key store.Key, application *objects.Application) (reconcile.Result, error) {
		return reconcile.Result{}, w.do(func() error {
			if application == nil {
				return fmt.Errorf("there is no application %v", key)
			}
			return nil
		})
	}, reconcile.WithWorkers(workers)))
	return all.Run, nil
}

func newOurOperator(config *rest.Config, done func(string)) (func(context.Context) error, error) {
	m := manager.New(config)
	applications, err := manager.Informer[*objects.Application](m, manager.Selection{Resource: objects.ApplicationResource})
	if err != nil {
		return nil, err
	}
	resource := appsv1.SchemeGroupVersion.WithResource("deployments") // discovery would ask the server
	deployments, err := manager.For[*appsv1.Deployment](m, manager.Selection{Resource: resource})
	if err != nil {
		return nil, err
	}
	manager.Reconcile(m, "applications", applications, func(ctx context.Context, key store.Key, application *objects.Application) (reconcile.Result, error) {
		if application == nil {
			return reconcile.Result{}, nil
		}
		held, _ := deployments.Cache().Get(key)
		_, err := write.CreateOrUpdate(ctx, deployments.Client.In(key.Namespace), held, key, func(deployment *appsv1.Deployment) error {
			shape(deployment, application)
			return write.Own(application, objects.ApplicationKind, deployment)
		})
		if err == nil {
			done(key.Name)
		}
		return reconcile.Result{}, err
	}, reconcile.Owns(deployments.Informer, objects.ApplicationKind.GroupKind()))
	return m.Run, nil
}
