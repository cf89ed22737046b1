package reconcilebench

import (
	"context"

	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	crbuilder "sigs.k8s.io/controller-runtime/pkg/builder"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type peerOperator struct{ manager.Manager }

func newPeerOperator(config *rest.Config, done func(string)) (operator, error) {
	m, err := newPeerManager(config)
	if err != nil {
		return nil, err
	}
	again := true // tests have more than one of the name
	return peerOperator{m}, crbuilder.ControllerManagedBy(m).Named("applications").For(&wirebench.Application{}).Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{SkipNameValidation: &again}).
		Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var application wirebench.Application
			if err := m.GetClient().Get(ctx, request.NamespacedName, &application); err != nil {
				return reconcile.Result{}, crclient.IgnoreNotFound(err)
			}
			deployment := &appsv1.Deployment{}
			deployment.Namespace, deployment.Name = request.Namespace, request.Name
			_, err := controllerutil.CreateOrUpdate(ctx, m.GetClient(), deployment, func() error {
				shape(deployment, &application)
				return controllerutil.SetControllerReference(&application, deployment, m.GetScheme())
			})
			if err == nil {
				done(request.Name)
			}
			return reconcile.Result{}, err
		}))
}

func (p peerOperator) run(ctx context.Context) error { return p.Start(ctx) }
