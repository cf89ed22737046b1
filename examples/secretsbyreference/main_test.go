package main

import (
	"context"
	"io"
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSecretsByReference(t *testing.T) {
	assert.Equal(t, `The Ingress is created:
  Ingress shop/web has the certificate of May
  Secrets in the cluster: 100, whole in memory: 1
The Ingress gets a label:
  Ingress shop/web has the certificate of May
  Secrets in the cluster: 100, whole in memory: 1
GET requests of Secrets: 1
The certificate is renewed:
  Ingress shop/web has the certificate of June
  Secrets in the cluster: 100, whole in memory: 1
GET requests of Secrets: 2
`, clustertest.Output(t, cluster.With(run, demo)))
}

func TestMissingSecretIsAwaited(t *testing.T) {
	late := func(ctx context.Context, out io.Writer, c cluster.Cluster) error {
		return cluster.Steps(ctx,
			c.Create(&networkingv1.Ingress{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
				Spec:       networkingv1.IngressSpec{TLS: []networkingv1.IngressTLS{{Hosts: []string{"shop.example.com"}}, {SecretName: "web-tls"}}},
			}),
			cluster.Say(out, "The Secret is created:"),
			c.Create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-tls"}, Data: map[string][]byte{corev1.TLSCertKey: []byte("of May")},
			}))
	}
	assert.Equal(t, `  Secrets in the cluster: 0, whole in memory: 0
The Secret is created:
  Ingress shop/web has the certificate of May
  Secrets in the cluster: 1, whole in memory: 1
`, clustertest.Output(t, cluster.With(run, late)))
}
