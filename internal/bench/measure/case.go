package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Round measures one side of a case once.
type Round func() (float64, error)

// Case is one line of a table.
type Case struct {
	// Name has no spaces. A slash separates the operation from its variant.
	Name string
	Unit string
	Goal Goal
	// Omits says in one line what the figure leaves out.
	Omits string

	// Rounds is how often each side is measured; 0 leaves it to the flags.
	Rounds int

	// Sides prepares the case and returns a round for each side. It is called once, and only if the
	// case was chosen.
	Sides func() (ours, peer Round, err error)
}

// Omitting sets the omission text of the cases that have none.
func Omitting(text string, cases ...Case) []Case {
	for i := range cases {
		cases[i].Omits = cmp.Or(cases[i].Omits, text)
	}
	return cases
}

// Goal is what a case is to reach. The zero Goal is no goal: the case is there to explain others.
type Goal struct {
	kind  string // "ratio" or "ours"
	limit float64
}

// RatioAtMost is the goal that ours is at most limit times the peer's.
func RatioAtMost(limit float64) Goal { return Goal{"ratio", limit} }

// AtMost is the goal that ours is at most limit, in the unit of the case.
func AtMost(limit float64) Goal { return Goal{"ours", limit} }

// Met reports whether two figures reach the goal.
func (g Goal) Met(ours, peer float64) bool {
	switch g.kind {
	case "ratio":
		return ours <= g.limit*peer
	case "ours":
		return ours <= g.limit
	default:
		return true
	}
}

// String returns the goal as the table shows it, such as "ratio<=0.6", "ours<=2.5" or "-".
func (g Goal) String() string {
	if g.kind == "" {
		return "-"
	}
	return fmt.Sprintf("%s<=%g", g.kind, g.limit)
}

// result is the medians of both sides, and the larger of the sides' spreads: the distance of the
// least figure and the greatest, as a part of the median. rounds are the figures of ours and the peer.
type result struct {
	ours, peer, spread float64
	rounds             [2][]float64
}

// measure runs both sides in turn, at least once, and begins no further round after the limit. 0 is
// no limit.
func (c Case) measure(rounds int, limit time.Duration) (result, error) {
	start := time.Now()
	ours, peer, err := c.Sides()
	if err != nil {
		return result{}, err
	}
	var figures [2][]float64
	for n := range cmp.Or(c.Rounds, rounds) {
		if limit > 0 && n > 0 && time.Since(start) >= limit {
			break
		}
		for i := range figures {
			side := (n + i) % 2 // the second side finds another heap and other caches
			figure, err := [...]Round{ours, peer}[side]()
			if err != nil {
				return result{}, err
			}
			figures[side] = append(figures[side], figure)
		}
	}
	r := result{ours: Median(figures[0]), peer: Median(figures[1]), rounds: figures}
	for i, median := range []float64{r.ours, r.peer} {
		if median != 0 {
			r.spread = max(r.spread, (slices.Max(figures[i])-slices.Min(figures[i]))/math.Abs(median))
		}
	}
	return r, nil
}

// Median returns the middle of the figures, or the mean of the two in the middle. It is 0 if there are
// none.
func Median(figures []float64) float64 {
	if len(figures) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(figures))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Metric is one of the [Figures] of a process.
type Metric struct {
	Name, Unit string
	// Omits is what the figure leaves out.
	Omits string
	Goal  Goal
}

// Within returns the metric with the goal of a ratio.
func (m Metric) Within(ratio float64) Metric {
	m.Goal = RatioAtMost(ratio)
	return m
}

// Comparison compares contenders that processes measure. A process measures all figures of its
// assignment, so the cases share its figures, round by round.
type Comparison[A comparable] struct {
	// Measure measures an assignment once.
	Measure func(A) (Figures, error)

	rounds map[A][]Figures
}

// Cases returns a case for each metric.
func (c *Comparison[A]) Cases(name string, rounds int, ours, peer A, metrics ...Metric) []Case {
	cases := make([]Case, len(metrics))
	for i, m := range metrics {
		cases[i] = Case{Name: name + "/" + m.Name, Unit: m.Unit, Omits: m.Omits, Goal: m.Goal, Rounds: rounds, Sides: func() (Round, Round, error) {
			return c.side(ours, m.Name), c.side(peer, m.Name), nil
		}}
	}
	return cases
}

func (c *Comparison[A]) side(a A, metric string) Round {
	round := 0
	return func() (float64, error) {
		if c.rounds == nil {
			c.rounds = map[A][]Figures{}
		}
		for len(c.rounds[a]) <= round {
			figures, err := c.Measure(a)
			if err != nil {
				return 0, err
			}
			c.rounds[a] = append(c.rounds[a], figures)
		}
		figure, ok := c.rounds[a][round][metric]
		if !ok {
			return 0, fmt.Errorf("%s was not measured of %+v", metric, a)
		}
		round++
		return figure, nil
	}
}
