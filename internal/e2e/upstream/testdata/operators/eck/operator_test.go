// Package eck plays the reconcilers of ApmServer and of its reference to Elasticsearch of elastic/cloud-on-k8s (ECK)
// v3.5.0, unmodified, and its collection of garbage at the start. An ApmServer in one namespace refers to an
// Elasticsearch in another, and is deleted.
//
//	go test -C internal/e2e/upstream/testdata/operators/eck -timeout 30m ./...
//
// A user of Elasticsearch outlives the ApmServer that it was made for: onDelete in
// pkg/controller/association/reconciler.go logs the error of the deletion of its Secret and returns none, so after an
// outage of deletions nothing tries again until the operator restarts. An outage of a moment is not enough, as the
// events of other Secrets call onDelete again.
//
// Each run takes a second of CPU, because ECK hashes passwords with bcrypt. The variable KUBEREFLECTOR_ALL_SCHEDULES
// plays a part of the schedules instead of the line of the known bug.
package eck

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apm "github.com/elastic/cloud-on-k8s/v3/pkg/apis/apm/v1"
	common "github.com/elastic/cloud-on-k8s/v3/pkg/apis/common/v1"
	es "github.com/elastic/cloud-on-k8s/v3/pkg/apis/elasticsearch/v1"
	"github.com/elastic/cloud-on-k8s/v3/pkg/controller/apmserver"
	"github.com/elastic/cloud-on-k8s/v3/pkg/controller/association"
	associations "github.com/elastic/cloud-on-k8s/v3/pkg/controller/association/controller"
	eckoperator "github.com/elastic/cloud-on-k8s/v3/pkg/controller/common/operator"
	"github.com/elastic/cloud-on-k8s/v3/pkg/controller/common/reconciler"
	eckscheme "github.com/elastic/cloud-on-k8s/v3/pkg/controller/common/scheme"
	"github.com/elastic/cloud-on-k8s/v3/pkg/utils/rbac"
	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	eckscheme.SetupScheme()
	os.Exit(m.Run())
}

// passwords gives each user the same one, so runs do not differ by it.
type passwords struct{}

func (passwords) Generate(context.Context) ([]byte, error) { return []byte("password"), nil }
func (passwords) Length(context.Context) (int, error)      { return 8, nil }

// operator runs the controller of ApmServers, that of their references to Elasticsearch, and the two collections
// of garbage at the start, as manager/main.go does.
func operator(ctx context.Context, cfg *rest.Config) error {
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme.Scheme, Controller: config.Controller{SkipNameValidation: new(true)}, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	params := eckoperator.Parameters{OperatorNamespace: "elastic-system", PasswordGenerator: passwords{}, MaxConcurrentReconciles: 1, IPFamily: corev1.IPv4Protocol}
	if err := apmserver.Add(m, params); err != nil {
		return err
	}
	if err := associations.AddApmES(m, rbac.NewPermissiveAccessReviewer(), params); err != nil {
		return err
	}
	if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Second):
		}
		m.GetCache().WaitForCacheSync(ctx)
		users, err := association.NewUsersGarbageCollector(cfg, nil)
		if err != nil {
			return err
		}
		if err := users.For(&apm.ApmServerList{}, associations.ApmAssociationLabelNamespace, associations.ApmAssociationLabelName).DoGarbageCollection(ctx); err != nil {
			return err
		}
		_ = reconciler.GarbageCollectAllSoftOwnedOrphanSecrets(ctx, m.GetClient(), map[string]client.Object{apm.Kind: &apm.ApmServer{}, es.Kind: &es.Elasticsearch{}})
		return nil
	})); err != nil {
		return err
	}
	return m.Start(ctx)
}

func served(t *testing.T) (all []reflectortest.Option) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/elastic/cloud-on-k8s/v3").Output()
	for file, prototype := range map[string]metav1.Object{"apm.k8s.elastic.co_apmservers": &apm.ApmServer{}, "elasticsearch.k8s.elastic.co_elasticsearches": &es.Elasticsearch{}} {
		manifest, err2 := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config/crds/v1/resources", file+".yaml"))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		all = append(all, reflectortest.WithDefinition(manifest, prototype))
	}
	return append(all, reflectortest.WithDefaults())
}

// cluster creates what the controller of Elasticsearch would make of a cluster.
func cluster(name string) simulate.Step {
	meta := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "elastic", Name: name + suffix}
	}
	return simulate.Step{Name: "create Elasticsearch elastic/" + name, Do: func(s *reflectortest.Server) error {
		e := &es.Elasticsearch{ObjectMeta: meta(""), Spec: es.ElasticsearchSpec{Version: "9.2.0"}}
		e.Status.Version = "9.2.0"
		for _, o := range []metav1.Object{
			&corev1.Secret{ObjectMeta: meta("-es-http-certs-public"), Data: map[string][]byte{"ca.crt": []byte("ca"), "tls.crt": []byte("crt")}},
			&corev1.Service{ObjectMeta: meta("-es-http"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 9200}}}},
			e,
		} {
			if err := simulate.Create(o).Do(s); err != nil {
				return err
			}
		}
		return nil
	}}
}

func newApm() *apm.ApmServer {
	a := &apm.ApmServer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	a.Spec.Version, a.Spec.Count = "9.2.0", 1
	a.Spec.HTTP.TLS.SelfSignedCertificate = &common.SelfSignedCertificate{Disabled: true}
	a.Spec.ElasticsearchRef = common.ElasticsearchSelector{}
	a.Spec.ElasticsearchRef.Namespace, a.Spec.ElasticsearchRef.Name = "elastic", "e"
	return a
}

// scenario plays a part of the schedules.
func scenario(t *testing.T, steps ...simulate.Step) simulate.Scenario {
	return simulate.Scenario{
		Server: served(t), Operator: operator, Steps: steps, Players: []simulate.Player{simulate.Deployments}, Most: 40,
		Normalize: func(o map[string]any) {
			if o["kind"] == "Secret" { // tokens and hashes are random
				if data, ok := o["data"].(map[string]any); ok {
					for key := range data {
						data[key] = ""
					}
				}
			}
			if o["kind"] == "Deployment" {
				template := o["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
				delete(template, "annotations") // hash of these
			}
		},
	}
}

func TestECK(t *testing.T) {
	s := scenario(t, cluster("e"), simulate.Create(newApm()), simulate.Delete(newApm()))
	if os.Getenv("KUBEREFLECTOR_ALL_SCHEDULES") != "" {
		simulate.Explore(t, s)
		return
	}
	const line, failure = "fail delete secrets elastic/default-a-apm-user#1 with 500 for 10m", "Secret elastic/default-a-apm-user exists"
	if _, failures := simulate.Play(t, s, line); !strings.Contains(strings.Join(failures, "\n"), failure) {
		t.Errorf("%q does not lead to %q, but to %q", line, failure, failures)
	}
}
