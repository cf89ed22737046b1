package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestScopes(t *testing.T) {
	assert.Equal(t, `All of west is added:
  Addition of west|bank/vault
  Addition of west|shop/till
The shop of east is added:
  Addition of east|shop/stall
The bank of east is added:
  Addition of east|bank/safe
The shop of east is dropped:
  Deletion of east|shop/stall
The namespace bank of all clusters:
  east|bank/safe
  west|bank/vault
`, clustertest.Output(t, demo))
}
