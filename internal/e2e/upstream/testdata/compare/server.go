package simulated

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Eventually waits so long, and a state has to stay for that long.
const (
	patience = 10 * time.Second
	stays    = time.Second
)

// plane is a kube-apiserver that serves the custom resource of a subject.
type plane struct {
	config *rest.Config
	client client.Client
}

func start(t *testing.T, s subject) plane {
	began := time.Now()
	config := apiserver.Start(t, apiserver.Options{}).Config()
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: s.custom.plural + "." + s.custom.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: s.custom.group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: s.custom.plural, Kind: s.custom.kind, ListKind: s.custom.kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: s.custom.version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
				},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	if strings.HasSuffix(s.custom.group, "k8s.io") {
		definition.Annotations = map[string]string{"api-approved.kubernetes.io": "unapproved, a test"}
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: s.scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vault"}}); err != nil {
		t.Fatal(err)
	}
	started(time.Since(began))
	return plane{config, c}
}

// run runs a test with the manager of an operator.
func (p plane) run(t *testing.T, s subject) error {
	ctx, cancel := context.WithCancel(t.Context())
	mgr, err := ctrl.NewManager(p.config, ctrl.Options{
		Scheme: s.scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		NewClient: func(cfg *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.New(cfg, options)
			return completing{c}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.operator(mgr); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		p.clean(t, s)
	}()
	return attempt(func() {
		s.test(&user{
			Client: p.client, ctx: ctx, before: func() {}, after: func() {},
			eventually: func(what string, holds func() bool) {
				for ends := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
					if time.Now().After(ends) {
						panic(errors.New(what))
					}
				}
				for ends := time.Now().Add(stays); time.Now().Before(ends); time.Sleep(100 * time.Millisecond) {
					if !holds() {
						panic(errors.New(what + " does not stay"))
					}
				}
			},
			elapse: func(_ time.Duration, age func()) { age() },
		})
	})
}

// clean deletes what a test has left.
func (p plane) clean(t *testing.T, s subject) {
	for _, list := range []client.ObjectList{
		s.custom.list, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &corev1.PersistentVolumeClaimList{}, &batchv1.JobList{}, &corev1.ServiceList{}, &appsv1.DeploymentList{},
	} {
		for _, namespace := range []string{"default", "vault"} {
			if err := p.client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
				t.Fatal(err)
			}
			err := meta.EachListItem(list, func(o runtime.Object) error {
				one := o.(client.Object)
				if one.GetName() == "kubernetes" {
					return nil
				}
				if len(one.GetFinalizers()) > 0 {
					one.SetFinalizers(nil)
					if err := p.client.Update(t.Context(), one); err != nil {
						return client.IgnoreNotFound(err)
					}
				}
				return client.IgnoreNotFound(p.client.Delete(t.Context(), one))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// completing is the client of an operator.
type completing struct{ client.Client }

func (c completing) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	complete(o)
	return c.Client.Create(ctx, o, options...)
}
