package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStalled(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, 1_000))
	assert.Equal(t, `After 1000 changes of 50 KiB, of which a stuck handler heard nothing:
client-go keeps about 50 MiB, and then calls it 1001 times
kubereflector keeps less than 5 MiB, and then calls it 2 times
`, out.String())
}
