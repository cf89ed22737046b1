package memorybench

import (
	"cmp"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// pairing is two contenders that hold the same objects, and the values to compare.
type pairing struct {
	ours, peer string
	dataset    string                  // "pods" unless it has another name
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
	{ours: "interned", peer: indexer, dataset: "unlike"},
	{ours: "plain", peer: indexer, dataset: "field"},
	{ours: "interned", peer: indexer, dataset: "field"},
	{ours: "stripped", peer: indexer, dataset: "field"},
	{ours: "compact", peer: indexer, dataset: "field"},
	{ours: "compact", peer: "plain", goals: map[string]measure.Goal{live.name: measure.RatioAtMost(1.0 / 8)}},
}

// cases returns a case for each line of the table.
func (w *world) cases() (all []measure.Case) {
	for _, p := range pairings {
		name, dataset := p.ours, cmp.Or(p.dataset, templated)
		if p.dataset != "" {
			name += "-" + p.dataset
		}
		for _, m := range metrics {
			all = append(all, measure.Case{
				Name: name + "/" + p.peer + "/" + m.name, Unit: m.unit, Omits: m.omits, Goal: p.goals[m.name], Rounds: w.rounds,
				Sides: func() (ours, peer measure.Round, err error) {
					if err := w.prepare(dataset); err != nil {
						return nil, nil, err
					}
					return w.side(entry{p.ours, dataset}, m), w.side(entry{p.peer, dataset}, m), nil
				},
			})
		}
	}
	return all
}
