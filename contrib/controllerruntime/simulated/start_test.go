package simulated

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/controller/simulate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// operator is the set-up of a main.go: docs/start/simulation.md shows it.
func operator(ctx context.Context, cfg *rest.Config) error {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:     scheme,
		Controller: config.Controller{SkipNameValidation: new(true)},
		Metrics:    metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := (&SiteReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func TestOperator(t *testing.T) {
	simulate.Explore(t, simulate.Scenario{
		Server:   served, // reflectortest.WithDefinition(manifest, &Site{})
		Operator: operator,
		Steps: []simulate.Step{
			simulate.Create(site("a")),
			simulate.Change(site("a"), func(s *Site) { s.Spec.Image = "v2" }),
			simulate.Delete(site("a")),
		},
		Players: []simulate.Player{simulate.Deployments},
	})
}

// SiteReconciler keeps a Deployment for each Site.
type SiteReconciler struct{ client.Client }

// SetupWithManager adds the controller to a manager.
func (r *SiteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}).Owns(&appsv1.Deployment{}).Complete(r)
}

// Reconcile brings the Deployment of a Site into its state.
func (r *SiteReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var s Site
	if err := r.Get(ctx, request.NamespacedName, &s); err != nil || s.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	labels := map[string]string{"site": s.Name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, d, func() error {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: s.Spec.Image}}
		return ctrl.SetControllerReference(&s, d, scheme)
	})
	return ctrl.Result{}, err
}
