package measure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunIsKeptInAFile(t *testing.T) {
	get, _ := scripted("get/one", RatioAtMost(0.6), []float64{1 / 3.0, 50, 51}, []float64{95, 105, 100})
	walk, _ := scripted("walk", AtMost(2), []float64{2.5}, []float64{0})
	get.Rounds, walk.Rounds = 3, 1
	topic := Topic{Name: "store", Cases: func(*World) []Case { return []Case{get, walk} }}
	file := filepath.Join(t.TempDir(), "store.json")
	require.NoError(t, topic.Run([]string{"-o", file}, &strings.Builder{}, os.Stderr))

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var kept struct {
		Report
		Cases []Measured
	}
	require.NoError(t, json.Unmarshal(text, &kept))
	assert.Equal(t, "go run -C internal/bench . store -o "+file, kept.Command)
	assert.Contains(t, kept.Machine, "CPUs")
	assert.False(t, kept.Start.IsZero())
	assert.Equal(t, []Measured{
		{Name: "get/one", Unit: "ns", Goal: "ratio<=0.6", Met: true, Ours: 50, Peer: 100, Spread: 1.013, Rounds: [2][]float64{{0.3333, 50, 51}, {95, 105, 100}}},
		{Name: "walk", Unit: "ns", Goal: "ours<=2", Ours: 2.5, Rounds: [2][]float64{{2.5}, {0}}},
	}, kept.Cases)
	assert.Contains(t, string(text), "\n    {\"name\":\"walk\"", "each case has a line of its own")
	assert.Contains(t, string(text), `"goal":"ratio<=0.6"`)
}

func TestRunThatFailsKeepsNoFile(t *testing.T) {
	broken := Case{Name: "get", Sides: func() (Round, Round, error) { return nil, nil, assert.AnError }}
	topic := Topic{Name: "store", Cases: func(*World) []Case { return []Case{broken} }}
	file := filepath.Join(t.TempDir(), "store.json")
	assert.ErrorIs(t, topic.Run([]string{"-o", file}, &strings.Builder{}, os.Stderr), assert.AnError)
	assert.NoFileExists(t, file)
}
