package measuretest

import (
	"bytes"
	"io"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// EveryCaseRuns measures both sides of each case so many times and gives each figure to check, which may be nil. Names must be distinct and without
// spaces.
func EveryCaseRuns(t *testing.T, cases []measure.Case, times int, check func(t *testing.T, c measure.Case, figure float64)) {
	seen := map[string]bool{}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			assert.Regexp(t, `^\S+$`, c.Name)
			assert.False(t, seen[c.Name], "two cases have the name %s", c.Name)
			seen[c.Name] = true
			assert.NotEmpty(t, c.Unit)
			assert.Regexp(t, `^.{10,100}$`, c.Omits, "one line")
			ours, peer, err := c.Sides()
			require.NoError(t, err)
			for range times {
				for _, round := range []measure.Round{ours, peer} {
					figure, err := round()
					require.NoError(t, err)
					if check != nil {
						check(t, c, figure)
					}
				}
			}
		})
	}
}

// RefusesNonsense calls a subcommand with arguments that make no sense.
func RefusesNonsense(t *testing.T, run func(args []string, out, log io.Writer) error) {
	assert.ErrorContains(t, run([]string{"all"}, &bytes.Buffer{}, io.Discard), `"all"`)
	assert.Error(t, run([]string{"-nonsense"}, &bytes.Buffer{}, io.Discard))
}
