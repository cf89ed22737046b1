package memorybench

import (
	"cmp"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Topic is the subcommand "memory".
var Topic = measure.Topic{Name: "memory", Summary: "what a store keeps of each object, and what reading it costs, beside client-go's indexer", Processes: true, Cases: cases}

// assignment is what a process is to measure.
type assignment struct {
	Contender, Dataset string

	Host     string // the root of the API server
	Objects  int
	Reads    int // of random keys
	Walks    int
	Profiles measure.Profiles
}

const kilobyte = 1000

var (
	live      = measure.Metric{Name: "live-heap", Unit: "kB/object", Omits: "garbage, stacks, and what updates leave behind"}
	rss       = measure.Metric{Name: "peak-rss", Unit: "kB/object", Omits: "memory that updates and relists need"}
	fill      = measure.Metric{Name: "fill/cpu", Unit: "µs/object", Omits: "TLS, compression, and the CPU time of the server"}
	read      = measure.Metric{Name: "read/cpu", Unit: "µs", Omits: "misses, and updates at the same time"}
	allocated = measure.Metric{Name: "read/allocated", Unit: "kB", Omits: "misses, and updates at the same time"}
	walk      = measure.Metric{Name: "walk/cpu", Unit: "µs/object", Omits: "updates at the same time"}
)

// indexer is the contender that most others are compared with.
const indexer = "client-go"

// pairings are two contenders that hold the same objects, in the order in which they are measured.
var pairings = []struct {
	ours, peer string
	dataset    string  // "pods" unless it has another name
	live       float64 // the goal; 0 for none
}{
	{ours: "plain", peer: indexer},
	{ours: "interned", peer: indexer, live: 0.75},
	{ours: "stripped", peer: indexer, live: 0.66},
	{ours: "projected", peer: indexer, live: 1.0 / 16},
	{ours: "compact", peer: indexer, live: 1.0 / 8},
	{ours: "persisted", peer: indexer, live: 0.75},
	{ours: "interned", peer: indexer, dataset: "unlike"},
	{ours: "plain", peer: indexer, dataset: "field"},
	{ours: "interned", peer: indexer, dataset: "field"},
	{ours: "stripped", peer: indexer, dataset: "field"},
	{ours: "compact", peer: indexer, dataset: "field"},
	{ours: "compact", peer: "plain", live: 1.0 / 8},
}

func cases(run *measure.World) (all []measure.Case) {
	type scale struct{ objects, reads, walks, rounds int }
	s := map[measure.Size]scale{measure.Thorough: {100_000, 200_000, 2, 3}, measure.Quick: {20_000, 40_000, 2, 1}, measure.Tiny: {60, 130, 2, 1}}[run.Size]
	server := apiserver.NewServer(run, s.objects)
	c := measure.Comparison[assignment]{Measure: func(a assignment) (_ measure.Figures, err error) {
		a.Objects, a.Reads, a.Walks, a.Profiles = s.objects, s.reads, s.walks, run.Profiles(a.Contender+"."+a.Dataset)
		if a.Host, err = server.Host(a.Dataset); err != nil {
			return nil, err
		}
		return measureInProcess(a)
	}}
	for _, p := range pairings {
		name, dataset := p.ours, cmp.Or(p.dataset, "pods")
		if p.dataset != "" {
			name += "-" + p.dataset
		}
		live, read := live, read
		if p.live > 0 {
			live = live.Within(p.live)
		}
		if name == "compact" && p.peer == indexer {
			read.Goal = measure.AtMost(60)
		}
		all = append(all, c.Cases(name+"/"+p.peer, s.rounds, assignment{Contender: p.ours, Dataset: dataset}, assignment{Contender: p.peer, Dataset: dataset},
			live, rss, fill, read, allocated, walk)...)
	}
	return all
}
