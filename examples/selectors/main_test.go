package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestSelectors(t *testing.T) {
	assert.Equal(t, `app=web is selected. Pods are created, also one with the name debug:
  Addition of front with app web
app=db is added:
  Addition of orders with app db
The label of orders changes from db to queue:
  Deletion of orders with app db
Both selectors are removed:
  Deletion of front with app web, which still exists
`, clustertest.Output(t, cluster.With(run, demo)))
}
