package reconcilebench

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
)

type ours struct {
	applications *informer.Informer[*apiserver.Application]
}

func newOurs(config *rest.Config) (contender, error) {
	resource, err := client.ForResource[*apiserver.Application](config, apiserver.Applications, "")
	if err != nil {
		return nil, err
	}
	return &ours{informer.New(resource)}, nil
}

func (o *ours) run(ctx context.Context, workers int, w *work) error {
	fn := func(_ context.Context, key store.Key, application *apiserver.Application) (reconcile.Result, error) {
		if w.begin() {
			if application == nil {
				return reconcile.Result{}, fmt.Errorf("there is no application %v", key)
			}
		}
		w.end()
		return reconcile.Result{}, nil
	}
	all := manager.New(nil)
	all.Add(o.applications)
	all.Add(reconcile.New("applications", o.applications, fn, reconcile.WithWorkers(workers)))
	return all.Run(ctx)
}

func newOurOperator(config *rest.Config, done func(string)) (func(context.Context) error, error) {
	m := manager.New(config)
	applications, err := manager.Informer[*apiserver.Application](m, manager.Source{Resource: apiserver.Applications})
	if err != nil {
		return nil, err
	}
	resource := appsv1.SchemeGroupVersion.WithResource("deployments") // discovery would ask the server
	deployments, err := manager.For[*appsv1.Deployment](m, manager.Source{Resource: resource})
	if err != nil {
		return nil, err
	}
	kind := apiserver.Applications.GroupVersion().WithKind("Application")
	manager.Reconcile(m, "applications", applications, func(ctx context.Context, key store.Key, application *apiserver.Application) (reconcile.Result, error) {
		if application == nil {
			return reconcile.Result{}, nil
		}
		held, _ := deployments.Cache().Get(key)
		_, err := write.CreateOrUpdate(ctx, deployments.Client.In(key.Namespace), held, key, func(deployment *appsv1.Deployment) error {
			shape(deployment, application)
			return write.Own(application, kind, deployment)
		})
		if err == nil {
			done(key.Name)
		}
		return reconcile.Result{}, err
	}, reconcile.Owns(deployments.Informer, kind.GroupKind()))
	return m.Run, nil
}
