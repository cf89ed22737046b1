package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMutantsFitTheCode(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		_, err := m.apply("../..")
		assert.NoError(t, err, m.name)
		assert.NotEmpty(t, m.packages(), m.name)
		assert.False(t, names[m.name], "two mutants have the name %s", m.name)
		names[m.name] = true
	}
}

func TestMutantMustMatchOnce(t *testing.T) {
	_, err := mutant{file: "main_test.go", text: "no such " + "text"}.apply(".")
	assert.ErrorContains(t, err, "0 times")
	_, err = mutant{file: "main_test.go", text: "testing"}.apply(".")
	assert.ErrorContains(t, err, "must have it once")
}
