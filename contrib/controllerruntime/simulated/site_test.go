// Package simulated shows what controller/simulate finds in operators of controller-runtime. Each pair
// is a small operator in two versions: one has a bug that passes review and tests, and the other does
// the same without it. Simulate must report the bug of the first, and nothing about the second.
//
// Site is the custom resource of all of them, and pairs_test.go has the tests. The pairs stand in:
//
//	caches_test.go   what an operator concludes from a cache that is behind
//	memory_test.go   what it keeps in memory, which a crash or a missed event makes wrong
//	cleanup_test.go  what it leaves behind
//	clients_test.go  what it takes from other clients
//	retries_test.go  what it does after an error, and how often
//	leaders_test.go  what it does before and after its term
package simulated

import (
	"context"
	"slices"

	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Site is the custom resource of the operators.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SiteSpec   `json:"spec,omitempty"`
	Status            SiteStatus `json:"status,omitempty"`
}

// SiteSpec is what the user wants.
type SiteSpec struct {
	Image    string `json:"image,omitempty"`
	Replicas int    `json:"replicas,omitempty"`
}

// SiteStatus is what the operator reports.
type SiteStatus struct {
	Image      string             `json:"image,omitempty"`
	Replicas   int                `json:"replicas,omitempty"`
	Port       int                `json:"port,omitempty"`
	Checked    *metav1.Time       `json:"checked,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SiteList is a list of sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (s *Site) DeepCopyObject() runtime.Object {
	c := *s
	c.ObjectMeta = *s.ObjectMeta.DeepCopy()
	c.Status.Checked = s.Status.Checked.DeepCopy()
	c.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &c
}

// DeepCopyObject implements [runtime.Object].
func (l *SiteList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = make([]Site, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Site)
	}
	return &c
}

var siteKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Site"}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	s.AddKnownTypes(siteKind.GroupVersion(), &Site{}, &SiteList{})
	metav1.AddToGroupVersion(s, siteKind.GroupVersion())
	return s
}()

// served makes the kind known to the server.
var served = []reflectortest.Option{reflectortest.WithResource(reflectortest.Resource{
	Group: siteKind.Group, Version: siteKind.Version, Kind: siteKind.Kind, Plural: "sites", Namespaced: true, Status: true, Prototype: &Site{},
})}

// run runs a manager with the controllers that setUp adds. Scenario.Operator needs nothing more of a
// controller-runtime operator.
func run(setUp func(ctrl.Manager) error, change ...func(*ctrl.Options)) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, cfg *rest.Config) error {
		options := ctrl.Options{
			Scheme:     scheme,
			Controller: config.Controller{SkipNameValidation: new(true)}, // the next process has the same controllers
			Metrics:    server.Options{BindAddress: "0"},
		}
		for _, set := range change {
			set(&options)
		}
		mgr, err := ctrl.NewManager(cfg, options)
		if err != nil {
			return err
		}
		if err := setUp(mgr); err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
}

// elected lets one process at a time run the controllers.
func elected(o *ctrl.Options) {
	o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace, o.LeaderElectionReleaseOnCancel = true, "sites", "default", true
}

// forSites adds a controller of the sites, which also reconciles a site when an object changes that it
// owns. Sites that are not in the cache need nothing.
func forSites(mgr ctrl.Manager, do func(context.Context, *Site) (ctrl.Result, error), owned ...client.Object) error {
	b := ctrl.NewControllerManagedBy(mgr).For(&Site{})
	for _, o := range owned {
		b = b.Owns(o)
	}
	return b.Complete(found(mgr.GetClient(), do))
}

// found reads the site of a request from the cache.
func found(c client.Client, do func(context.Context, *Site) (ctrl.Result, error)) reconcile.Func {
	return func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		s := &Site{}
		if err := c.Get(ctx, request.NamespacedName, s); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		return do(ctx, s)
	}
}

// release is an immutable ConfigMap with the image of a site: another image needs another object.
func release(s *Site) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: owned(s, ""), Immutable: new(true), Data: map[string]string{"image": s.Spec.Image}}
}

// owned is what an object of a site has in common with others: its name is the site's, and a suffix.
func owned(s *Site, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name + suffix, Labels: map[string]string{"site": s.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, siteKind)},
	}
}

// labelled selects the objects of a site.
func labelled(s *Site) []client.ListOption {
	return []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{"site": s.Name}}
}

// The steps of the user.

func site(name string) *Site {
	return &Site{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: SiteSpec{Image: "v1"}}
}

func create(name string) simulate.Step { return simulate.Create(site(name)) }

func remove(name string) simulate.Step { return simulate.Delete(site(name)) }

// replace deletes a site and creates one with the same name, as kubectl replace --force does.
func replace(name string) simulate.Step {
	return simulate.Step{Name: "replace " + name, Do: func(s *reflectortest.Server) error {
		if err := s.Delete(site(name)); err != nil {
			return err
		}
		return s.Create(site(name))
	}}
}

func setImage(name, image string) simulate.Step {
	return simulate.Change(site(name), func(s *Site) { s.Spec.Image = image })
}

func scale(name string, replicas int) simulate.Step {
	return simulate.Change(site(name), func(s *Site) { s.Spec.Replicas = replicas })
}
