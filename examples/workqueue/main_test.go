package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestWorkQueue(t *testing.T) {
	assert.Equal(t, `client-go's work queue gets shop/till three times and shop/stock once:
  shop/till fails
  shop/stock is done at attempt 1
  shop/till is done at attempt 2
A collection of keys gets shop/till three times and shop/stock once:
  shop/till fails
  shop/stock is done at attempt 1
  shop/till is done at attempt 2
A collection of events gets a till that changes from 1 to 2 and to 3:
  Addition of shop/till: from 0 to 1
  Modification of shop/till: from 1 to 3
`, clustertest.Output(t, demo))
}
