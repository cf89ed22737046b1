package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestBooks(t *testing.T) {
	assert.Equal(t, `All books, in the order of their keys:
  Charles Dickens/Bleak House
  Charles Dickens/David Copperfield
  Herman Melville/Moby Dick
By key: "Moby Dick" by Herman Melville, found: true
By Charles Dickens:
  Bleak House
  David Copperfield
Books after one was deleted: 2
A book without a title: store rejected 1 object(s): object without a key: object has no usable key
`, clustertest.Output(t, run))
}
