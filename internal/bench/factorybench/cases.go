package factorybench

import (
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Topic is the subcommand "factory".
var Topic = measure.Topic{Name: "factory", Summary: "a factory of 20 kinds, beside client-go's", Cases: cases}

// assignment is the work of a process.
type assignment struct {
	Contender string

	Host     string
	Objects  int
	Profiles measure.Profiles
}

func cases(run *measure.World) []measure.Case {
	type scale struct{ pods, rounds int }
	s := map[measure.Size]scale{measure.Thorough: {10_000, 5}, measure.Quick: {2_000, 3}, measure.Tiny: {100, 1}}[run.Size]
	servers := &apiserver.Servers{Objects: s.pods}
	c := measure.Comparison[assignment]{Measure: func(a assignment) (measure.Figures, error) {
		server, count, err := servers.StartCluster()
		if err != nil {
			return nil, err
		}
		defer server.Close()
		a.Host, a.Objects, a.Profiles = server.URL, count, run.Profiles(a.Contender)
		return measureInProcess(a)
	}}
	metrics := []measure.Metric{
		measure.Metric{Name: "start/cpu", Unit: "µs/object", Omits: "TLS, compression, and the CPU time of the server"}.Within(0.5),
		measure.Metric{Name: "start/peak-rss", Unit: "MB", Omits: "memory that events and relists need"}.Within(0.6),
		{Name: "start/live-heap", Unit: "kB/object", Omits: "garbage and stacks"},
	}
	return append(c.Cases("20-kinds", s.rounds, assignment{Contender: "ours"}, assignment{Contender: "client-go"}, metrics...),
		c.Cases("20-kinds-generated", s.rounds, assignment{Contender: "ours-generated"}, assignment{Contender: "client-go"}, metrics...)...)
}
