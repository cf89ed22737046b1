package moving

import (
	"context"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// again lets one process make the controller more than once, as a test does.
var again = config.Controller{SkipNameValidation: new(true)}

// siteReconciler is the controller, for controller-runtime.
type siteReconciler struct {
	client.Client
	gone func(ctx context.Context, name string) error
}

// Reconcile makes the Deployment of a site be as the site says.
func (r *siteReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(&site, finalizer) {
			return ctrl.Result{}, nil
		}
		if err := r.gone(ctx, site.Name); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&site, finalizer)
		return ctrl.Result{}, r.Update(ctx, &site)
	}
	if controllerutil.AddFinalizer(&site, finalizer) {
		if err := r.Update(ctx, &site); err != nil {
			return ctrl.Result{}, err
		}
	}
	replicas, err := strconv.ParseInt(site.Data["replicas"], 10, 32)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = site.Namespace, site.Name
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		shape(deployment, int32(replicas))
		return ctrl.SetControllerReference(&site, deployment, r.Scheme())
	})
	return ctrl.Result{RequeueAfter: time.Hour}, err
}

// runWithControllerRuntime runs the controller until ctx ends.
func runWithControllerRuntime(ctx context.Context, cluster *rest.Config, gone func(context.Context, string) error) error {
	mgr, err := ctrl.NewManager(cluster, ctrl.Options{
		Controller:                    again,
		LeaderElection:                true,
		LeaderElectionID:              "sites",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(site client.Object) bool {
			return site.GetLabels()["site"] == "yes"
		}))).
		Owns(&appsv1.Deployment{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, secret client.Object) []reconcile.Request {
			name := secret.GetLabels()["for-site"]
			if name == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: secret.GetNamespace(), Name: name}}}
		})).
		Complete(&siteReconciler{Client: mgr.GetClient(), gone: gone})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
