package memorybench

import (
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Topic is the subcommand "memory".
var Topic = measure.Topic{Name: "memory", Summary: "what a store keeps of each object, and what reading it costs, beside client-go's indexer", Cases: cases}

// assignment is the work of a process.
type assignment struct {
	Contender, Dataset string

	Host     string // the root of the API server
	Objects  int
	Reads    int // of random keys
	Profiles measure.Profiles
}

const kilobyte = 1000

var (
	live = measure.Metric{Name: "live-heap", Unit: "kB/object", Omits: "garbage, stacks, and what updates leave behind"}
	rss  = measure.Metric{Name: "peak-rss", Unit: "kB/object", Omits: "memory that updates and relists need"}
	fill = measure.Metric{Name: "fill/cpu", Unit: "µs/object", Omits: "TLS, compression, and the CPU time of the server"}
	read = measure.Metric{Name: "read/cpu", Unit: "µs", Omits: "misses, and updates at the same time"}
	walk = measure.Metric{Name: "walk/cpu", Unit: "µs/object", Omits: "updates at the same time"}
)

// stores are what a store is compared with the indexer for, in the order of the measurements. A
// transformed store is compared with an indexer behind the same transform.
var stores = []struct {
	name, dataset string
	live          float64 // the goal; 0 for none
}{
	{"plain", "pods", 0},
	{"interned", "pods", 0.75},
	{"stripped", "pods", 0.66},
	{"projected", "pods", 1.0 / 16},
	{"compact", "pods", 1.0 / 8},
	{"persisted", "pods", 0.75},
	{"plain", "field", 0},
	{"interned", "field", 0},
	{"stripped", "field", 0},
	{"compact", "field", 0},
	{"transformed", "field", 0},
}

func cases(run *measure.World) (all []measure.Case) {
	type scale struct{ objects, reads, rounds int }
	s := map[measure.Size]scale{measure.Thorough: {100_000, 200_000, 3}, measure.Quick: {20_000, 40_000, 1}, measure.Tiny: {60, 130, 1}}[run.Size]
	servers := &apiserver.Servers{Objects: s.objects}
	c := measure.Comparison[assignment]{Measure: func(a assignment) (measure.Figures, error) {
		server, err := servers.Start(a.Dataset, apiserver.Streams)
		if err != nil {
			return nil, err
		}
		defer server.Close()
		a.Host, a.Objects, a.Reads, a.Profiles = server.URL, s.objects, s.reads, run.Profiles(a.Contender+"."+a.Dataset)
		return measureInProcess(a)
	}}
	for _, store := range stores {
		name, live, read := store.name, live, read
		if store.dataset != "pods" {
			name += "-" + store.dataset
		}
		if store.live > 0 {
			live = live.Within(store.live)
		}
		if name == "compact" {
			read.Goal = measure.AtMost(60)
		}
		ours, peer := assignment{Contender: store.name, Dataset: store.dataset}, assignment{Contender: "client-go", Dataset: store.dataset}
		if store.name == "transformed" {
			peer.Contender = "client-go-transformed"
		}
		all = append(all, c.Cases(name+"/client-go", s.rounds, ours, peer, live, rss, fill, read, walk)...)
	}
	return all
}
