package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMutantsFitTheCode(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		c, err := m.apply("../..")
		require.NoError(t, err, m.name)
		assert.NotEmpty(t, c.packages(), m.name)
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

func TestSampleChangesConditionsStatementsAndOperators(t *testing.T) {
	const code = `package p

func f(a, b int) int {
	for i := 0; i < b; i++ {
		a++
	}
	if a < b && !g() {
		a = b
		log.Print(a)
		h()
	}
	switch c := a + b; {
	case c == 1:
		h()
	}
	return a
}
`
	edits, err := editsOf([]byte(code))
	require.NoError(t, err)
	var got []string
	for _, e := range edits {
		got = append(got, e.rule+": "+code[e.from:e.to]+" → "+e.with)
	}
	assert.ElementsMatch(t, []string{
		"dropped: a++ → ", "negated: a < b && !g() → !(a < b && !g())", "to <=: < → <=", "to ||: && → ||",
		"dropped: a = b → ", "dropped: h() → ", "to -: + → -", "to !=: == → !=", "dropped: h() → ",
	}, got)
}

func TestSampleIsOfCodeAndNotOfTests(t *testing.T) {
	all, err := changesOf(".", ".")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, c := range all {
		assert.NotEqual(t, "main_test.go", c.file)
		assert.Equal(t, []string{"./."}, c.tests)
	}
}
