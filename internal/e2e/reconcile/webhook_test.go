package reconcile

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhook is asked by the server whether a Deployment may be created.
type webhook struct {
	// mu protects the fields below it.
	mu      sync.Mutex
	refuses bool
	asked   map[string][]time.Time // by the names of Deployments
}

// startWebhook has the server ask about all Deployments of a namespace. They are refused at first.
func (s *sample) startWebhook() *webhook {
	s.Helper()
	h := &webhook{refuses: true, asked: map[string][]time.Time{}}
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	s.Cleanup(server.Close)
	address, fail, none, seconds := server.URL, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(5)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "deployments.example.com", FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &address, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	configurations := s.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configurations.Create(s.Context(), configuration, metav1.CreateOptions{})
	require.NoError(s, err)
	eventually(s.T, "the webhook to be asked", func() bool {
		labels := map[string]string{"app": "probe"}
		probe := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
			},
		}}
		_, err := s.deployments.Create(s.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
	return h
}

// ServeHTTP implements [http.Handler].
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.asked[review.Request.Name] = append(h.asked[review.Request.Name], time.Now())
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !h.refuses}
	h.mu.Unlock()
	if !review.Response.Allowed {
		review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not today"}
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the server asks again
}

// allow refuses nothing any more.
func (h *webhook) allow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = false
}

// times returns when it was asked about a Deployment.
func (h *webhook) times(name string) []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]time.Time(nil), h.asked[name]...)
}
