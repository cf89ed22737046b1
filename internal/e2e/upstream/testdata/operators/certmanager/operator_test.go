// Package certmanager plays controllers of cert-manager v1.21.2, unmodified: those that issue a Certificate, of
// client-go's informers and work queue, without controller-runtime.
//
//	go test -C internal/e2e/upstream/testdata/operators/certmanager -timeout 30m ./...
//
// Two bugs are known:
//
//   - If an issuer refuses a request, failIssueCertificate in pkg/controller/certificates/issuing/issuing_controller.go
//     counts the attempt in the informer's own object, and copies that only afterwards. So each time that the status
//     cannot be written, the next try counts the same attempt again, and the back-off of the Certificate doubles: two
//     hours instead of one after a single conflict, and 32 hours, the maximum, after an outage of some minutes.
//   - ProcessItem in pkg/controller/certificates/trigger/trigger_controller.go decides by its cache whether the Secret
//     has the certificate that was just issued. While the events of Secrets are late, or their watch begins again, it
//     does not, so the certificate is issued again each time that an issuance has ended: five times until the
//     informer has its new list. Issuers limit how often they do that.
//
// A change that comes before the first issuance has ended leaves a lower revision, which is as it should be.
//
// The controller of readiness does not run, because its writes and those of the others refuse each other in an order
// that differs from run to run.
package certmanager

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

var controllers = []string{
	trigger.ControllerName, keymanager.ControllerName, requestmanager.ControllerName, issuing.ControllerName,
	approver.ControllerName, selfsigned.CRControllerName,
}

// operator runs controllers as controller.go of cmd/controller does, without its servers.
func operator(ctx context.Context, cfg *rest.Config) error {
	// The factory makes its own config of a host. Its clients keep the transport that is the default now.
	http.DefaultTransport = cfg.Transport
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		APIServerHost: cfg.Host, KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		CertificateOptions: controller.CertificateOptions{EnableOwnerRef: true, CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour},
	})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	for _, name := range controllers {
		c, err := controller.Known()[name](factory)
		if err != nil {
			return err
		}
		running.Go(func() { utilruntime.HandleError(c.Run(1, ctx)) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	running.Wait()
	return nil
}

// issuers play an external issuer, which refuses each request.
func issuers(s *reflectortest.Server) (time.Duration, error) {
	all, err := reflectortest.List[*certmanager.CertificateRequest](s, "")
	for _, r := range all {
		if r.Spec.IssuerRef.Group == "example.com" && apiutil.CertificateRequestIsApproved(r) && r.Status.FailureTime == nil {
			r.Status.FailureTime = new(metav1.Now())
			apiutil.SetCertificateRequestCondition(r, certmanager.CertificateRequestConditionReady, cmmeta.ConditionFalse, certmanager.CertificateRequestReasonFailed, "no")
			err = s.Update(r)
		}
	}
	return 0, err
}

func newCertificate(issuer cmmeta.IssuerReference) *certmanager.Certificate {
	return &certmanager.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: certmanager.CertificateSpec{
		SecretName: "tls", DNSNames: []string{"example.com"}, IssuerRef: issuer,
		PrivateKey: &certmanager.CertificatePrivateKey{Algorithm: certmanager.ECDSAKeyAlgorithm, RotationPolicy: certmanager.RotationPolicyAlways},
	}}
}

// TestCertManager has the bug of each scenario, as the line and a part of the failure.
func TestCertManager(t *testing.T) {
	klog.SetLogger(logr.Discard())
	issuer := &certmanager.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "self"}}
	issuer.Spec.SelfSigned = &certmanager.SelfSignedIssuer{}
	issuer.Status.Conditions = []certmanager.IssuerCondition{{Type: certmanager.IssuerConditionReady, Status: cmmeta.ConditionTrue}}
	self := newCertificate(cmmeta.IssuerReference{Name: "self"})
	external := newCertificate(cmmeta.IssuerReference{Name: "e", Kind: "Issuer", Group: "example.com"})
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	utilruntime.Must(err)
	var served []reflectortest.Option
	for plural, prototype := range map[string]metav1.Object{
		"certificates": &certmanager.Certificate{}, "certificaterequests": &certmanager.CertificateRequest{}, "issuers": &certmanager.Issuer{}, "clusterissuers": &certmanager.ClusterIssuer{},
	} {
		manifest, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "deploy/crds/cert-manager.io_"+plural+".yaml"))
		utilruntime.Must(err)
		served = append(served, reflectortest.WithDefinition(manifest, prototype))
	}
	change := simulate.Change(self, func(c *certmanager.Certificate) { c.Spec.DNSNames = []string{"example.org"} })
	for _, s := range []struct {
		name, line, failure string
		steps               []simulate.Step
	}{
		{"refused", "fail update certificates/status default/a#3 with 409", ".status.failedIssuanceAttempts is 2, undisturbed 1", []simulate.Step{simulate.Create(external), simulate.Delete(external)}},
		{"renewed", "expire secrets at patch secrets default/tls#2", "certificaterequests default/a-3 was created 1 times, undisturbed 0 times", []simulate.Step{simulate.Create(issuer), simulate.Create(self), change}},
		{"created again", "hold secrets from create certificaterequests default/a-1#1 for 5 writes", "CertificateRequest default/a-2 exists", []simulate.Step{simulate.Create(issuer), simulate.Create(self), simulate.Delete(self), simulate.Create(self)}},
	} {
		t.Run(s.name, func(t *testing.T) {
			played := simulate.Scenario{
				Server: served, Operator: operator, Steps: s.steps, Players: []simulate.Player{issuers}, Most: 100,
				Normalize: withoutKeys, Serial: true, // http.DefaultTransport is of the run
			}
			if _, failures := simulate.Play(t, played, s.line); !strings.Contains(strings.Join(failures, "\n"), s.failure) {
				t.Errorf("%q does not lead to %q, but to %q", s.line, s.failure, failures)
			}
			for _, f := range simulate.Find(t, played) {
				if text := f.Failures[0]; !strings.Contains(text, "Certificate default/a: .status.failedIssuanceAttempts is ") && !strings.Contains(text, "Certificate default/a: .status.revision is ") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// withoutKeys removes keys and what is signed with them, which are random.
func withoutKeys(object map[string]any) {
	if object["kind"] == "Secret" {
		delete(object, "data")
	}
	if spec, ok := object["spec"].(map[string]any); ok {
		delete(spec, "request")
	}
	if status, ok := object["status"].(map[string]any); ok {
		delete(status, "certificate")
		delete(status, "ca")
	}
}
