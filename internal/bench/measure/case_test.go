package measure

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGoal(t *testing.T) {
	for _, test := range []struct {
		goal Goal
		ours float64
		peer float64
		text string
		met  bool
	}{
		{goal: Goal{}, ours: 5, peer: 1, text: "-", met: true},
		{goal: RatioAtMost(0.6), ours: 6, peer: 10, text: "ratio<=0.6", met: true},
		{goal: RatioAtMost(0.6), ours: 6.1, peer: 10, text: "ratio<=0.6", met: false},
		{goal: RatioAtMost(1), ours: 1, peer: 0, text: "ratio<=1", met: false},
		{goal: AtMost(2.5), ours: 2.5, peer: 0.1, text: "ours<=2.5", met: true},
		{goal: AtMost(2.5), ours: 2.6, peer: 100, text: "ours<=2.5", met: false},
		{goal: AtMost(0), ours: 0, peer: 0, text: "ours<=0", met: true},
	} {
		assert.Equal(t, test.text, test.goal.String())
		assert.Equal(t, test.met, test.goal.Met(test.ours, test.peer), "%+v", test)
	}
}

// scripted returns a case whose rounds yield the given figures, and the order of the rounds.
func scripted(name string, goal Goal, ours, peer []float64) (Case, *[]string) {
	var calls []string
	side := func(name string, figures []float64) Round {
		return func() (float64, error) {
			calls = append(calls, name)
			figure := figures[0]
			figures = figures[1:]
			return figure, nil
		}
	}
	return Case{Name: name, Unit: "ns", Goal: goal, Sides: func() (Round, Round, error) {
		return side("ours", ours), side("peer", peer), nil
	}}, &calls
}

func TestSidesAreMeasuredInTurnAndTheMedianCounts(t *testing.T) {
	c, calls := scripted("x", Goal{}, []float64{1, 100, 2}, []float64{30, 10, 20})
	r, err := c.measure(3, 0)
	require.NoError(t, err)
	assert.Equal(t, result{ours: 2, peer: 20, spread: 49.5, rounds: [2][]float64{{1, 100, 2}, {30, 10, 20}}}, r)
	assert.Equal(t, []string{"ours", "peer", "peer", "ours", "ours", "peer"}, *calls)
}

func TestErrorOfEitherSideOrOfThePreparationEndsACase(t *testing.T) {
	broken := errors.New("broken")
	fails := func() (float64, error) { return 1, broken }
	works := func() (float64, error) { return 1, nil }
	for name, sides := range map[string]func() (Round, Round, error){
		"ours":        func() (Round, Round, error) { return fails, works, nil },
		"peer":        func() (Round, Round, error) { return works, fails, nil },
		"preparation": func() (Round, Round, error) { return nil, nil, broken },
	} {
		_, err := Case{Sides: sides}.measure(3, 0)
		assert.ErrorIs(t, err, broken, name)
	}
}

func TestMedian(t *testing.T) {
	assert.Zero(t, Median(nil))
	assert.Equal(t, 7.0, Median([]float64{7}))
	assert.Equal(t, 2.5, Median([]float64{4, 1, 3, 2}))
	figures := []float64{9, 1, 1000}
	assert.Equal(t, 9.0, Median(figures))
	assert.Equal(t, []float64{9, 1, 1000}, figures, "the figures keep their order")
}

func TestCasesShareTheFiguresOfAProcess(t *testing.T) {
	measured := map[string]int{}
	c := Comparison[string]{Measure: func(a string) (Figures, error) {
		measured[a]++
		return Figures{"cpu": 1, "heap": 2}, nil
	}}
	cases := c.Cases("pods", 3, "ours", "peer", Metric{Name: "cpu"}, Metric{Name: "heap"}.Within(0.5), Metric{Name: "rss"})
	for i, want := range []float64{1, 2} {
		r, err := cases[i].measure(11, 0)
		require.NoError(t, err)
		assert.Equal(t, want, r.ours)
	}
	assert.Equal(t, map[string]int{"ours": 3, "peer": 3}, measured)
	assert.Equal(t, "pods/heap", cases[1].Name)
	assert.Equal(t, RatioAtMost(0.5), cases[1].Goal)
	_, err := cases[2].measure(11, 0)
	assert.ErrorContains(t, err, "rss was not measured of ours")
}
