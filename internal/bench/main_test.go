package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUsageNamesEverySubcommand(t *testing.T) {
	var out, log strings.Builder
	assert.Zero(t, bench([]string{"help"}, &out, &log))
	for _, c := range subcommands {
		assert.Contains(t, out.String(), c.name)
		assert.Contains(t, out.String(), c.summary)
	}
	assert.Empty(t, log.String())
}

func TestWrongCommandLine(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "Usage"},
		{[]string{"sotre"}, 2, `no subcommand "sotre"`},
		{[]string{"store", "-h"}, 0, "-quick"},
		{[]string{"store", "-slow"}, 1, "-slow"},
		{[]string{"store", "quick"}, 1, `unexpected argument "quick"`},
	} {
		var out, log strings.Builder
		assert.Equal(t, test.code, bench(test.args, &out, &log), test.args)
		assert.Contains(t, log.String(), test.says)
		assert.Empty(t, out.String())
	}
}
