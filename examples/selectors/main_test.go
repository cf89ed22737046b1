package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestSelectors(t *testing.T) {
	assert.Equal(t, `app=web and app=db are selected. Pods are created, also one with the name debug:
  Addition of front with app web
  Addition of orders with app db
The label of front changes from web to db:
  Modification of front with app db
The label of orders changes from db to queue, and the pod still exists:
  Deletion of orders with app db
`, clustertest.Output(t, cluster.With(run, demo)))
}
