package measure

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var everyCase = regexp.MustCompile("")

func TestTable(t *testing.T) {
	met, _ := scripted("get/one", RatioAtMost(0.6), []float64{50, 50}, []float64{95, 105})
	missed, _ := scripted("update+snapshot", AtMost(2.5), []float64{13.54}, []float64{2})
	alone, _ := scripted("walk", Goal{}, []float64{0}, []float64{0})
	cases := []Case{met, missed, alone}
	for i := range cases {
		cases[i].Rounds = 1
	}
	cases[0].Rounds = 2
	Omitting("misses", cases[:1]...)
	var out strings.Builder
	require.NoError(t, run(&out, everyCase, Thorough, cases, NewReport("")))
	machine, table, _ := strings.Cut(out.String(), "\n")
	assert.Regexp(t, `^\w+/\w+, go1\.\S+.*, \d+ CPUs`, machine)
	assert.Equal(t, `name                  ours       peer  ratio spread  unit           goal                  leaves out
get/one               50.0        100   0.50    10%  ns             ratio<=0.6            misses
update+snapshot       13.5       2.00   6.77     0%  ns             ours<=2.5 MISSED
walk                     0          0      -     0%  ns             -
`, table)
}

func TestPatternChoosesCases(t *testing.T) {
	chosen, _ := scripted("walk/all", Goal{}, []float64{1}, []float64{1})
	chosen.Rounds = 1
	other := Case{Name: "get", Sides: func() (Round, Round, error) { panic("was not chosen") }}
	var out strings.Builder
	require.NoError(t, run(&out, regexp.MustCompile("^walk"), Thorough, []Case{other, chosen}, &Report{}))
	assert.Contains(t, out.String(), "walk/all")
	assert.NotContains(t, out.String(), "get")

	assert.ErrorContains(t, run(&out, regexp.MustCompile("batch"), Thorough, []Case{other, chosen}, &Report{}), "batch")
}

func TestErrorNamesTheCase(t *testing.T) {
	broken := Case{Name: "get", Sides: func() (Round, Round, error) { return nil, nil, assert.AnError }}
	err := run(&strings.Builder{}, everyCase, Thorough, []Case{broken}, &Report{})
	assert.ErrorIs(t, err, assert.AnError)
	assert.ErrorContains(t, err, "get: ")
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0049: "0.005", 0.75: "0.750", 1: "1.00", 9.87: "9.87", 12.34: "12.3", 123.4: "123", 4585.2: "4585", -3: "-3.00",
	} {
		assert.Equal(t, want, figure(v))
	}
}

func TestQuickRunMeasuresLessOfLaterCases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := make([]int, 4)
		var cases []Case
		for i, pause := range []time.Duration{quickTime / 100, quickTime, time.Millisecond, time.Millisecond} {
			round := func() (float64, error) {
				rounds[i]++
				<-time.After(pause)
				return 1, nil
			}
			cases = append(cases, Case{Name: "x", Sides: func() (Round, Round, error) { return round, round, nil }})
		}
		require.NoError(t, run(&strings.Builder{}, everyCase, Quick, cases, &Report{}))
		assert.Equal(t, []int{2 * quickRounds, 2, 2, 2}, rounds, "once the time is over, each case is measured once")
	})
	assert.Less(t, quickRounds, thoroughRounds)
}
