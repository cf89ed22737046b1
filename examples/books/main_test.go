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
By Charles Dickens: ["Bleak House" "David Copperfield"]
By Herman Melville: ["Moby Dick"]
The newest first: ["Bleak House" "Moby Dick" "David Copperfield"]
Of 1851 and later: ["Moby Dick" "Bleak House"]
In the order of the shelves: ["Moby Dick" "Bleak House"]
Then: 3 books, by Dickens ["Bleak House" "David Copperfield"]
Now: 2 books, by Dickens ["David Copperfield"]
A book without a title: store rejected 1 object(s): object without a key: object has no usable key
`, clustertest.Output(t, run))
}
