package reconcilebench

import (
	"context"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	crbuilder "sigs.k8s.io/controller-runtime/pkg/builder"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// newPeerManager returns a manager for applications and Deployments.
func newPeerManager(config *rest.Config) (manager.Manager, error) {
	group := objects.ApplicationKind.GroupVersion()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(group.WithKind("Application"), &objects.Application{})
	scheme.AddKnownTypeWithName(group.WithKind("ApplicationList"), &objects.ApplicationList{})
	metav1.AddToGroupVersion(scheme, group)
	if err := appsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil) // the default mapper would ask the server for its resources
	mapper.AddSpecific(group.WithKind("Application"), objects.ApplicationResource, objects.ApplicationResource, meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	return manager.New(config, manager.Options{
		Scheme:         scheme,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Logger:         logr.Discard(),
	})
}

func newPeer(config *rest.Config, workers int, w *work) (func(context.Context) error, error) {
	m, err := newPeerManager(config)
	if err != nil {
		return nil, err
	}
	c, err := controller.New("applications", m, controller.Options{
		MaxConcurrentReconciles: workers,
		Reconciler: reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, w.do(func() error {
				var application objects.Application
				return m.GetClient().Get(ctx, request.NamespacedName, &application)
			})
		}),
	})
	if err != nil {
		return nil, err
	}
	return m.Start, c.Watch(source.Kind(m.GetCache(), &objects.Application{}, &handler.TypedEnqueueRequestForObject[*objects.Application]{}))
}

func newPeerOperator(config *rest.Config, done func(string)) (func(context.Context) error, error) {
	m, err := newPeerManager(config)
	if err != nil {
		return nil, err
	}
	return m.Start, crbuilder.ControllerManagedBy(m).Named("applications").For(&objects.Application{}).Owns(&appsv1.Deployment{}).
		Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var application objects.Application
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
