// Package kro plays kro v0.9.4, unmodified: a ResourceGraphDefinition of two ConfigMaps, and an instance of it.
//
//	go test -C internal/e2e/upstream/testdata/operators/kro -timeout 30m ./...
//
// Nothing is found: kro reads what it decides on from the API server, and deletes with the UID. The API server in
// memory has no OpenAPI document, so the test gives the schema of ConfigMaps, and it serves the kind of the instances
// from the start; a player says of their definition that it is established.
package kro

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	graphrevisions "github.com/kubernetes-sigs/kro/api/internal.kro.run/v1alpha1"
	kro "github.com/kubernetes-sigs/kro/api/v1alpha1"
	kroclient "github.com/kubernetes-sigs/kro/pkg/client"
	"github.com/kubernetes-sigs/kro/pkg/controller/graphrevision"
	"github.com/kubernetes-sigs/kro/pkg/controller/resourcegraphdefinition"
	"github.com/kubernetes-sigs/kro/pkg/dynamiccontroller"
	"github.com/kubernetes-sigs/kro/pkg/graph"
	"github.com/kubernetes-sigs/kro/pkg/graph/revisions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/validation/spec"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// schemas has that of ConfigMaps.
type schemas struct{}

func (schemas) ResolveSchema(schema.GroupVersionKind) (*spec.Schema, error) {
	of := func(fields ...string) spec.Schema {
		s := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{}}}
		for _, f := range fields {
			s.Properties[f] = *spec.StringProperty()
		}
		return s
	}
	c := of("apiVersion", "kind")
	c.Properties["metadata"], c.Properties["data"] = of("name", "namespace", "uid"), *spec.MapProperty(spec.StringProperty())
	return &c, nil
}

// operator runs kro's controllers as its main.go does.
func operator(ctx context.Context, cfg *rest.Config) error {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, graphrevisions.AddToScheme, kro.AddToScheme, apiextensionsv1.AddToScheme} {
		utilruntime.Must(add(kinds))
	}
	set, err := kroclient.NewSet(kroclient.Config{RestConfig: cfg, QPS: 100, Burst: 150})
	if err != nil {
		return err
	}
	m, err := ctrl.NewManager(set.RESTConfig(), ctrl.Options{
		Scheme: kinds, Client: client.Options{HTTPClient: set.HTTPClient()},
		Controller: config.Controller{SkipNameValidation: new(true)}, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	dynamic := dynamiccontroller.NewDynamicController(logr.Discard(), dynamiccontroller.Config{
		Workers: 1, ResyncPeriod: 10 * time.Hour, QueueMaxRetries: 20, MinRetryDelay: 200 * time.Millisecond,
		MaxRetryDelay: 1000 * time.Second, RateLimit: 10, BurstLimit: 100,
	}, set.Metadata(), set.RESTMapper())
	builder, err := graph.NewBuilder(set.RESTConfig(), set.HTTPClient(), graph.WithSchemaResolver(schemas{}))
	if err != nil {
		return err
	}
	registry, limits := revisions.NewRegistry(), graph.RGDConfig{MaxCollectionSize: 1000, MaxCollectionDimensionSize: 10}
	definitions := resourcegraphdefinition.NewResourceGraphDefinitionReconciler(set, dynamic, builder, registry, resourcegraphdefinition.Config{
		InstanceRequeueInterval: 3 * time.Second, ProgressRequeueDelay: 3 * time.Second, MaxConcurrentReconciles: 1, MaxGraphRevisions: 5, AllowCRDDeletion: true, RGDConfig: limits,
	})
	if err := definitions.SetupWithManager(m); err != nil {
		return err
	}
	if err := graphrevision.NewGraphRevisionReconciler(builder, registry, 1, limits).SetupWithManager(m); err != nil {
		return err
	}
	if err := m.Add(dynamic); err != nil {
		return err
	}
	return m.Start(ctx)
}

func served(t *testing.T) []reflectortest.Option {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kubernetes-sigs/kro").Output()
	all := []reflectortest.Option{
		reflectortest.WithResource(reflectortest.Resource{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions", Status: true, Prototype: &apiextensionsv1.CustomResourceDefinition{}}),
		reflectortest.WithResource(reflectortest.Resource{Group: "kro.run", Version: "v1alpha1", Kind: "App", Plural: "apps", Namespaced: true, Status: true}),
	}
	for file, prototype := range map[string]metav1.Object{
		"internal.kro.run_graphrevisions": &graphrevisions.GraphRevision{}, "kro.run_resourcegraphdefinitions": &kro.ResourceGraphDefinition{},
	} {
		manifest, err2 := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "helm/crds", file+".yaml"))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		all = append(all, reflectortest.WithDefinition(manifest, prototype))
	}
	return all
}

// established plays the API server: the kind of each definition is served at once.
func established(s *reflectortest.Server) (time.Duration, error) {
	all, err := reflectortest.List[*apiextensionsv1.CustomResourceDefinition](s, "")
	for _, d := range all {
		if len(d.Status.Conditions) == 0 {
			d.Status.AcceptedNames = d.Spec.Names
			d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
			err = s.Update(d)
		}
	}
	return 0, err
}

func newDefinition(t *testing.T) *kro.ResourceGraphDefinition {
	d := &kro.ResourceGraphDefinition{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: app}
spec:
  schema:
    apiVersion: v1alpha1
    group: kro.run
    kind: App
    spec: {value: string}
    status: {uid: "${first.metadata.uid}"}
  resources:
  - id: first
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-first"}, data: {value: "${schema.spec.value}"}}
  - id: second
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-second"}, data: {of: "${first.metadata.name}"}}
`), d); err != nil {
		t.Fatal(err)
	}
	return d
}

func newApp() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": map[string]any{"namespace": "default", "name": "a"},
		"spec": map[string]any{"value": "x"},
	}}
}

// scenario plays a part of the schedules: there are over a thousand.
func scenario(t *testing.T, steps ...simulate.Step) simulate.Scenario {
	return simulate.Scenario{Server: served(t), Operator: operator, Steps: steps, Players: []simulate.Player{established}, Most: 150}
}

func TestKro(t *testing.T) {
	d, a := newDefinition(t), newApp()
	change := simulate.Change(a, func(a *unstructured.Unstructured) { a.Object["spec"] = map[string]any{"value": "y"} })
	one := newDefinition(t)
	one.Spec.Resources = one.Spec.Resources[:1]
	grow := simulate.Change(d, func(x *kro.ResourceGraphDefinition) { x.Spec.Resources = d.Spec.Resources })
	reduce := simulate.Change(d, func(d *kro.ResourceGraphDefinition) { d.Spec.Resources = d.Spec.Resources[:1] })
	for _, s := range []struct {
		name string
		simulate.Scenario
	}{
		{"instance", scenario(t, simulate.Create(one), simulate.Create(a), simulate.Delete(a), simulate.Create(a))},
		{"change", scenario(t, simulate.Create(d), simulate.Create(a), change, reduce, simulate.Delete(a))},
		{"definition", scenario(t, simulate.Create(one), grow, simulate.Delete(one), simulate.Create(d))},
	} {
		t.Run(s.name, func(t *testing.T) { simulate.Explore(t, s.Scenario) })
	}
}
