// Package sealedsecrets plays bitnami/sealed-secrets v0.40.0, unmodified: a controller of client-go's informers and
// work queue, without controller-runtime.
//
//	go test -C internal/e2e/upstream/testdata/operators/sealedsecrets -timeout 30m ./...
//
// Three bugs are known, all in pkg/controller/controller.go:
//
//   - processNextItem gives up after five retries, which take 0.2 seconds, and nothing brings the SealedSecret back
//     into the queue. One that is deleted and created again meets the Secret of the old one, which the garbage
//     collector deletes some seconds later. The handler of deletions in watchSecrets then ignores that Secret,
//     because it is not owned by the new SealedSecret. So the new one never gets a Secret. An outage does the same.
//   - unseal only logs that the status could not be written. It also has changed the status in the informer's own
//     object by then, so each later call takes it for written.
//   - The same handler asserts that what was deleted is a Secret. If the watch has expired meanwhile, it is a
//     DeletedFinalStateUnknown, and the process ends with a panic.
//
// The Secret's annotations are the controller's, unless the annotation sealedsecrets.bitnami.com/patch says otherwise,
// as the README says. So the findings of removed annotations are harmless.
package sealedsecrets

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	sealed "github.com/bitnami/sealed-secrets/pkg/apis/sealedsecrets/v1alpha1"
	"github.com/bitnami/sealed-secrets/pkg/client/clientset/versioned"
	"github.com/bitnami/sealed-secrets/pkg/client/informers/externalversions"
	"github.com/bitnami/sealed-secrets/pkg/controller"
	"github.com/bitnami/sealed-secrets/pkg/crypto"
	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// operator runs the controller as main.go does, but for its web servers. The keys come from an informer, as with
// --watch-for-secrets, and are there before the first SealedSecret.
func operator(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	sealedClient, err := versioned.NewForConfig(cfg)
	if err != nil {
		return err
	}
	keys := controller.NewKeyRegistry(client, "kube-system", "key", controller.SealedSecretsKeyLabel, 2048)
	keyInformers := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("kube-system"),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = controller.SealedSecretsKeyLabel + "=active" }))
	c, err := controller.NewController(client, sealedClient, externalversions.NewSharedInformerFactory(sealedClient, 0),
		informers.NewSharedInformerFactory(client, 0), keyInformers, keys, 5, "CertNotBefore")
	if err != nil {
		return err
	}
	// The default of --update-status is true.
	update := reflect.ValueOf(c).Elem().FieldByName("updateStatus")
	reflect.NewAt(update.Type(), unsafe.Pointer(update.UnsafeAddr())).Elem().SetBool(true)
	keyInformers.Start(ctx.Done())
	keyInformers.WaitForCacheSync(ctx.Done())
	<-time.After(time.Second) // the handlers run
	go c.Run(ctx.Done())
	<-ctx.Done()
	return nil
}

func TestSealedSecrets(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetLogger(logr.Discard())
	key, cert, err := crypto.GeneratePrivateKeyAndCert(2048, 1e18, "")
	utilruntime.Must(err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "key", Labels: map[string]string{controller.SealedSecretsKeyLabel: "active"}},
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		},
	}
	seal := func(value string) *sealed.SealedSecret {
		plain := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "a"}, Data: map[string][]byte{"password": []byte(value)}}
		s, err := sealed.NewSealedSecret(scheme.Codecs, &key.PublicKey, plain)
		utilruntime.Must(err)
		return s
	}
	first, second := seal("first"), seal("second")
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bitnami/sealed-secrets").Output()
	utilruntime.Must(err)
	definition, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "helm/sealed-secrets/crds/bitnami.com_sealedsecrets.yaml"))
	utilruntime.Must(err)
	change := simulate.Change(first, func(s *sealed.SealedSecret) { s.Spec = second.Spec })
	deleteSecret := simulate.Delete(&corev1.Secret{ObjectMeta: first.ObjectMeta})
	type known struct{ line, failure string }
	const status, missing = "SealedSecret x/a: .status", "Secret x/a is missing"
	const panics = "the operator panics: interface conversion: interface {} is cache.DeletedFinalStateUnknown, not *v1.Secret"
	for _, s := range []struct {
		name  string
		steps []simulate.Step
		bugs  []known
	}{
		{"created again", []simulate.Step{simulate.Create(secret), simulate.Create(first), change, simulate.Delete(first), simulate.Create(second)}, []known{
			{"steps 4 and 5 together", missing},
			{"fail create secrets x/a#1 with 500 for 10m", missing},
		}},
		{"secret deleted", []simulate.Step{simulate.Create(secret), simulate.Create(first), deleteSecret, change}, []known{
			{"fail update sealedsecrets/status x/a#1 with 500", status + ".conditions is absent"},
			{"expire secrets at update sealedsecrets/status x/a#1", panics},
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			played := simulate.Scenario{
				Server: []reflectortest.Option{reflectortest.WithDefinition(definition, &sealed.SealedSecret{})}, Operator: operator,
				Steps: s.steps, Serial: true, // NewController changes a scheme that all share
			}
			for _, bug := range s.bugs {
				if _, failures := simulate.Play(t, played, bug.line); !strings.Contains(strings.Join(failures, "\n"), bug.failure) {
					t.Errorf("%q does not lead to %q, but to %q", bug.line, bug.failure, failures)
				}
			}
			for _, f := range simulate.Find(t, played) {
				text := strings.Join(f.Failures, "\n")
				same := slices.ContainsFunc([]string{status, missing, panics}, func(failure string) bool { return strings.Contains(text, failure) })
				if !same && !strings.Contains(text, "removed an annotation that another client had set on secrets x/a") { // harmless, see above
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
