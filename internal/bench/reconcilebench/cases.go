package reconcilebench

import (
	"fmt"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Topic is the subcommand "reconcile".
var Topic = measure.Topic{Name: "reconcile", Summary: "from a watch to a reconciliation, beside controller-runtime: rate, latency and memory", Cases: cases}

// assignment is the work of a process.
type assignment struct {
	Contender string
	Workers   int

	Host     string // the root of the API server
	Objects  int
	Passes   int // over all keys
	Alone    int // changes that come one by one; 0 measures none, nor those that come together
	Profiles measure.Profiles
}

const (
	perSecond = "reconciles/s" // more is better, of these alone
	perCall   = "µs/reconcile"
	megabyte  = 1e6

	omitsWay    = "the way of an event to the queue"
	omitsEvents = "additions and deletions, and work of reconcilers"
	omitsRest   = "the server, the network, and other changes at the same time"
)

var (
	startCPU    = measure.Metric{Name: "start/cpu", Unit: "µs/object", Omits: "TLS, compression, and the CPU time of the server"}
	idleRate    = measure.Metric{Name: "rate/no-op", Unit: perSecond, Omits: omitsWay}
	idleCPU     = measure.Metric{Name: "rate/no-op-cpu", Unit: perCall, Omits: omitsWay}
	readingRate = measure.Metric{Name: "rate/read", Unit: perSecond, Omits: omitsWay + ", and writes"}
	readingCPU  = measure.Metric{Name: "rate/read-cpu", Unit: perCall, Omits: omitsWay + ", and writes"}
	eventCPU    = measure.Metric{Name: "event/cpu", Unit: "µs/event", Omits: omitsEvents}
	eventAllocs = measure.Metric{Name: "event/allocations", Unit: "per event", Omits: omitsEvents}
	restP50     = measure.Metric{Name: "rest/p50", Unit: "µs", Omits: omitsRest}
	restP99     = measure.Metric{Name: "rest/p99", Unit: "µs", Omits: omitsRest}
	heap        = measure.Metric{Name: "heap", Unit: "MB", Omits: "garbage, stacks, and what events leave behind"}
)

// manyWorkers is the number of workers of a reconciler with more than one.
const manyWorkers = 8

func cases(run *measure.World) []measure.Case {
	type scale struct {
		objects, passes, alone, rounds int
		owners                         int // applications of an operator, each with a Deployment
	}
	s := map[measure.Size]scale{measure.Thorough: {10_000, 3, 2_000, 7, 5_000}, measure.Quick: {10_000, 1, 300, 3, 5_000}, measure.Tiny: {40, 1, 3, 1, 40}}[run.Size]
	servers := &apiserver.Servers{Objects: s.objects}
	c := measure.Comparison[assignment]{Measure: func(a assignment) (measure.Figures, error) {
		server, err := servers.Start("custom", apiserver.Streams)
		if err != nil {
			return nil, err
		}
		defer server.Close()
		a.Host, a.Objects, a.Passes, a.Profiles = server.URL, s.objects, s.passes, run.Profiles(fmt.Sprintf("%s.%d", a.Contender, a.Workers))
		if a.Workers == 1 {
			a.Alone = s.alone
		}
		return measureInProcess(a)
	}}
	with := func(name string, workers int, metrics ...measure.Metric) []measure.Case {
		return c.Cases(name, s.rounds, assignment{Contender: "ours", Workers: workers}, assignment{Contender: "peer", Workers: workers}, metrics...)
	}
	all := with("1-worker", 1, idleRate, idleCPU, readingRate, readingCPU, restP50, restP99, eventCPU, eventAllocs, startCPU)
	all = append(all, with(fmt.Sprintf("%d-workers", manyWorkers), manyWorkers, idleCPU, readingCPU)...)
	all = append(all, with(fmt.Sprintf("%d-objects", s.objects), 1, heap)...)

	operators := measure.Comparison[assignment]{Measure: func(a assignment) (measure.Figures, error) {
		cluster, err := newCluster(s.owners)
		if err != nil {
			return nil, err
		}
		defer cluster.Close()
		a.Host, a.Objects, a.Profiles = cluster.URL(), s.owners, run.Profiles("operator."+a.Contender)
		return restartInProcess(a)
	}}
	return append(all, operators.Cases(fmt.Sprintf("operator-of-%d", s.owners), s.rounds, assignment{Contender: "ours"}, assignment{Contender: "peer"},
		measure.Metric{Name: "restart-cpu", Unit: "ms", Omits: "the CPU time of the server, TLS and leader election"}.Within(0.4),
		measure.Metric{Name: "peak-rss", Unit: "MB", Omits: "memory that later events need"}.Within(0.7),
		measure.Metric{Name: "live-heap", Unit: "MB", Omits: "garbage and stacks"},
		measure.Metric{Name: "writes", Unit: "requests", Omits: "failures of the server", Goal: measure.AtMost(0)})...)
}
