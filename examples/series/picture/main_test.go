package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		assert.NoError(t, run(t.Context(), &out))
		assert.Equal(t, `added: do [default/song]
updated: do, now re [default/song]
deleted: re []
`, out.String())
	})
}
