// Package trustmanager plays cert-manager/trust-manager v0.25.0, unmodified.
//
//	go test -C internal/e2e/upstream/testdata/operators/trustmanager -timeout 30m ./...
//
// A target that is no longer wanted stays if its clean-up fails: reconcileBundle in pkg/bundle/bundle.go logs
// the error, returns none, and writes that the Bundle is synced. So the ConfigMap keeps the certificates in a
// namespace that the Bundle does not select, until something else changes.
//
// CleanupTarget in pkg/bundle/internal/target applies an empty patch before it deletes. If its cache still shows a
// target that is gone, the patch creates it again, and the next call deletes what the patch made. Nobody is
// hurt by that, so these findings pass.
package trustmanager

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	trust "github.com/cert-manager/trust-manager/pkg/apis/trust/v1alpha1"
	"github.com/cert-manager/trust-manager/pkg/bundle"
	"github.com/cert-manager/trust-manager/pkg/bundle/controller"
	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// operator runs trust-manager's reconciler as its app.go does, without its webhooks.
func operator(ctx context.Context, cfg *rest.Config) error {
	kinds := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(kinds))
	utilruntime.Must(trust.AddToScheme(kinds))
	opts := controller.Options{Namespace: "cert-manager", SecretTargetsEnabled: true}
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: kinds, Cache: bundle.CacheOpts(opts),
		Controller: config.Controller{SkipNameValidation: new(true)}, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := bundle.SetupWithManager(ctx, m, opts); err != nil {
		return err
	}
	return m.Start(ctx)
}

func certificate(name string) string {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	utilruntime.Must(err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, private)
	utilruntime.Must(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func namespace(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
}

func source(pem string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "cert-manager", Name: "ca"}, Data: map[string]string{"ca.crt": pem}}
}

func newBundle() *trust.Bundle {
	return &trust.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: trust.BundleSpec{
		Sources: []trust.BundleSource{{ConfigMap: &trust.SourceObjectKeySelector{Name: "ca", Key: "ca.crt"}}},
		Target: trust.BundleTarget{
			ConfigMap:         &trust.TargetTemplate{Key: "trust.pem"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}},
		},
	}}
}

func scenario(steps ...simulate.Step) simulate.Scenario {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/trust-manager").Output()
	utilruntime.Must(err)
	definition, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "deploy/crds/trust.cert-manager.io_bundles.yaml"))
	utilruntime.Must(err)
	return simulate.Scenario{
		Server: []reflectortest.Option{reflectortest.WithDefinition(definition, &trust.Bundle{})}, Operator: operator,
		Steps: append([]simulate.Step{
			simulate.Create(namespace("cert-manager", "")), simulate.Create(namespace("x", "x")),
			simulate.Create(source(certificate("first"))), simulate.Create(newBundle()),
		}, steps...),
	}
}

// TestTrustManager has the bug of each scenario, as the line and a part of the failure.
func TestTrustManager(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	label := func(team string) simulate.Step {
		return simulate.Change(namespace("x", ""), func(n *corev1.Namespace) { n.Labels["team"] = team })
	}
	secret := simulate.Change(newBundle(), func(b *trust.Bundle) {
		b.Spec.Target.ConfigMap, b.Spec.Target.Secret = nil, &trust.TargetTemplate{Key: "trust.pem"}
	})
	renewed := certificate("renewed")
	renew := simulate.Change(source(""), func(c *corev1.ConfigMap) { c.Data["ca.crt"] = renewed })
	for _, s := range []struct {
		name, line, failure string
		simulate.Scenario
	}{
		{"labels", "fail patch configmaps x/b#2 with 409", "ConfigMap x/b exists", scenario(label("y"), label("x"))},
		{"kind", "fail patch configmaps x/b#2 with 500 for 10m", "ConfigMap x/b exists", scenario(secret, simulate.Delete(source("")))},
		{"source", "", "", scenario(renew, simulate.Delete(newBundle()), simulate.Create(newBundle()))},
	} {
		t.Run(s.name, func(t *testing.T) {
			bugs := 0
			for _, f := range simulate.Find(t, s.Scenario) {
				switch text := strings.Join(f.Failures, "\n"); {
				case f.Line == s.line && strings.Contains(text, s.failure):
					bugs++
				case !strings.Contains(text, "configmaps x/b was deleted 2 times, undisturbed 1 times"): // harmless, see above
					t.Errorf("%+v", f)
				}
			}
			if s.line != "" && bugs != 1 {
				t.Errorf("%q with %q is not found", s.line, s.failure)
			}
		})
	}
}
