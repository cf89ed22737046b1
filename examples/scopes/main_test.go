package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		assert.Equal(t, `All of west:
  Addition of west|bank/vault
  Addition of west|shop/till
Of east, the shop:
  Addition of east|shop/stall
Of east, the bank too:
  Addition of east|bank/safe
The shop of east no more:
  Deletion of east|shop/stall
In every bank:
  east|bank/safe
  west|bank/vault
`, out.String())
	})
}
