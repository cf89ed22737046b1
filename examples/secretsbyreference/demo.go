package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo fills the cluster with Secrets, of which an Ingress names one.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	secret := func(name, certificate string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Data:       map[string][]byte{corev1.TLSCertKey: []byte(certificate)},
		}
	}
	var others []metav1.Object
	for i := range 99 {
		others = append(others, secret(fmt.Sprintf("release-%d", i), strings.Repeat("x", 10_000)))
	}
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       networkingv1.IngressSpec{TLS: []networkingv1.IngressTLS{{SecretName: "web-tls"}}},
	}
	gets := func() error {
		requests := c.Memory.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets"))
		_, err := fmt.Fprintf(out, "GET requests of Secrets: %d\n", len(requests))
		return err
	}
	return cluster.Steps(ctx,
		c.Create(others...),
		c.Create(secret("web-tls", "of May")),
		cluster.Say(out, "The Ingress is created:"),
		c.Create(ingress),
		cluster.Say(out, "The Ingress gets a label:"),
		func() error {
			ingress.Labels = map[string]string{"team": "sales"}
			return c.Memory.Update(ingress)
		},
		gets,
		cluster.Say(out, "The certificate is renewed:"),
		c.Update(secret("web-tls", "of June")),
		gets,
	)
}
