package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	measure.Main()
	goleak.VerifyTestMain(m)
}

// TestEveryCaseRuns measures both sides of each case once, on little data.
func TestEveryCaseRuns(t *testing.T) {
	for _, topic := range topics {
		t.Run(topic.Name, func(t *testing.T) {
			w := &measure.World{Size: measure.Tiny}
			seen := map[string]bool{}
			for _, c := range topic.Cases(w) {
				t.Run(c.Name, func(t *testing.T) {
					assert.Regexp(t, `^\S+$`, c.Name)
					assert.False(t, seen[c.Name], "two cases have the name %s", c.Name)
					seen[c.Name] = true
					assert.NotEmpty(t, c.Unit)
					assert.Regexp(t, `^.{10,100}$`, c.Omits, "one line")
					ours, peer, err := c.Sides()
					require.NoError(t, err)
					for _, round := range []measure.Round{ours, peer} {
						figure, err := round()
						require.NoError(t, err)
						checkFigure(t, c, figure)
					}
				})
			}
		})
	}
}

// checkFigure tolerates noise: so few objects weigh less than what the runtime does meanwhile.
func checkFigure(t *testing.T, c measure.Case, figure float64) {
	switch {
	case c.Goal == measure.AtMost(0):
		assert.Zero(t, figure)
	case regexp.MustCompile(`heap|idle|alloc`).MatchString(c.Name):
	default:
		assert.Positive(t, figure)
	}
}

func TestUsageNamesEverySubcommand(t *testing.T) {
	var out, log strings.Builder
	assert.Zero(t, bench([]string{"help"}, &out, &log))
	for _, topic := range topics {
		assert.Contains(t, out.String(), topic.Name)
		assert.Contains(t, out.String(), topic.Summary)
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
		{[]string{"wire", "-h"}, 0, "-profiles"},
		{[]string{"wire", "-run", "("}, 1, "-run"},
	} {
		var out, log strings.Builder
		assert.Equal(t, test.code, bench(test.args, &out, &log), test.args)
		assert.Contains(t, log.String(), test.says)
		assert.Empty(t, out.String())
	}
}
