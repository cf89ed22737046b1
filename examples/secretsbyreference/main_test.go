package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
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
