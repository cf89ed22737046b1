package reconcilebench

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/rest"
)

type ours struct {
	applications *informer.Informer[*wirebench.Application]
}

func newOurs(config *rest.Config) (contender, error) {
	resource, err := client.ForResource[*wirebench.Application](config, wirebench.Applications, "")
	if err != nil {
		return nil, err
	}
	return &ours{informer.New(resource)}, nil
}

func (o *ours) run(ctx context.Context, workers int, w *work) error {
	fn := func(_ context.Context, key store.Key, application *wirebench.Application) (reconcile.Result, error) {
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
