package memorybench

import "github.com/kubereflector/kubereflector/internal/bench/measure"

// pairing is two contenders that hold the same objects, and what is compared.
type pairing struct {
	ours, peer string
	goals      map[string]measure.Goal // by metric
}

// indexer is the contender that all others are compared with.
const indexer = "client-go"

// metrics are in the order in which they are printed.
var metrics = []metric{live, rss, fill, read, allocated, walk}

// pairings are in the order in which they are measured.
var pairings = []pairing{
	{ours: "plain", peer: indexer},
	{ours: "interned", peer: indexer, goals: map[string]measure.Goal{live.name: measure.RatioAtMost(0.75)}},
	{ours: "stripped", peer: indexer, goals: map[string]measure.Goal{live.name: measure.RatioAtMost(0.66)}},
	{ours: "projected", peer: indexer, goals: map[string]measure.Goal{live.name: measure.RatioAtMost(1.0 / 16)}},
	{ours: "compact", peer: indexer, goals: map[string]measure.Goal{live.name: measure.RatioAtMost(1.0 / 8), read.name: measure.AtMost(60)}},
	{ours: "persisted", peer: indexer, goals: map[string]measure.Goal{live.name: measure.RatioAtMost(0.75)}},
	{ours: "compact", peer: "plain", goals: map[string]measure.Goal{live.name: measure.RatioAtMost(1.0 / 8)}},
}

// cases returns a case for each line of the table.
func (w *world) cases() (all []measure.Case) {
	for _, p := range pairings {
		for _, m := range metrics {
			all = append(all, measure.Case{
				Name: p.ours + "/" + p.peer + "/" + m.name, Unit: m.unit, Goal: p.goals[m.name], Rounds: w.rounds,
				Sides: func() (ours, peer measure.Round, err error) {
					if err := w.prepare(); err != nil {
						return nil, nil, err
					}
					return w.side(p.ours, m), w.side(p.peer, m), nil
				},
			})
		}
	}
	return all
}
