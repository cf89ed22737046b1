package measure

import "fmt"

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
