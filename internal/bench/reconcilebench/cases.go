package reconcilebench

import (
	"fmt"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// Topic is the subcommand "reconcile".
var Topic = measure.Topic{Name: "reconcile", Summary: "from a watch to a reconciliation, beside controller-runtime: rate, latency and memory", Processes: true, Cases: cases}

// scale says how much is measured.
type scale struct {
	objects int
	passes  int
	alone   int // changes that come one by one
	rounds  int
	owners  int // applications of an operator, each with a Deployment
}

var scales = map[measure.Size]scale{
	measure.Thorough: {objects: 10_000, passes: 3, alone: 2_000, rounds: 7, owners: 5_000},
	measure.Quick:    {objects: 10_000, passes: 1, alone: 300, rounds: 3, owners: 5_000},
	measure.Tiny:     {objects: 40, passes: 1, alone: 3, rounds: 1, owners: 40},
}

// assignment is what a process is to measure.
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
	perObject = "µs/object"
	perEvent  = "µs/event"
	perSecond = "reconciles/s" // more is better, of these alone
	perCall   = "µs/reconcile"
	micros    = "µs"
	megabyte  = 1e6
)

var (
	startCPU    = measure.Metric{Name: "start/cpu", Unit: perObject, Omits: "TLS, compression, and the CPU time of the server"}
	idleRate    = measure.Metric{Name: "rate/no-op", Unit: perSecond, Omits: "the way of an event to the queue"}
	readingRate = measure.Metric{Name: "rate/read", Unit: perSecond, Omits: "the way of an event to the queue, and writes"}
	idleCPU     = measure.Metric{Name: "rate/no-op-cpu", Unit: perCall, Omits: "the way of an event to the queue"}
	readingCPU  = measure.Metric{Name: "rate/read-cpu", Unit: perCall, Omits: "the way of an event to the queue, and writes"}
	eventCPU    = measure.Metric{Name: "event/cpu", Unit: perEvent, Omits: "additions and deletions, and work of reconcilers"}
	eventAllocs = measure.Metric{Name: "event/allocations", Unit: "per event", Omits: "additions and deletions, and work of reconcilers"}
	restP50     = measure.Metric{Name: "rest/p50", Unit: micros, Omits: "the server, the network, and other changes at the same time"}
	restP99     = measure.Metric{Name: "rest/p99", Unit: micros, Omits: "the server, the network, and other changes at the same time"}
	heap        = measure.Metric{Name: "heap", Unit: "MB", Omits: "garbage, stacks, and what events leave behind"}
)

// manyWorkers is the number of workers of a reconciler with more than one.
const manyWorkers = 8

func cases(run *measure.World) []measure.Case {
	s := scales[run.Size]
	server := apiserver.NewServer(run, s.objects)
	c := measure.Comparison[assignment]{Measure: func(a assignment) (_ measure.Figures, err error) {
		a.Objects, a.Passes, a.Profiles = s.objects, s.passes, run.Profiles(fmt.Sprintf("%s.%d", a.Contender, a.Workers))
		if a.Workers == 1 {
			a.Alone = s.alone
		}
		if a.Host, err = server.Host("custom"); err != nil {
			return nil, err
		}
		return measureInProcess(a)
	}}
	with := func(name string, workers int, metrics ...measure.Metric) []measure.Case {
		return c.Cases(name, s.rounds, assignment{Contender: "ours", Workers: workers}, assignment{Contender: "peer", Workers: workers}, metrics...)
	}
	all := with("1-worker", 1, idleRate, idleCPU, readingRate, readingCPU, restP50, restP99, eventCPU, eventAllocs, startCPU)
	all = append(all, with(fmt.Sprintf("%d-workers", manyWorkers), manyWorkers, idleRate, idleCPU, readingRate, readingCPU)...)
	all = append(all, with(fmt.Sprintf("%d-objects", s.objects), 1, heap)...)
	return append(all, operatorCases(run, s)...)
}

// operatorCases returns the cases of an operator of applications and their Deployments.
func operatorCases(run *measure.World, s scale) []measure.Case {
	var cluster *reflectortest.Server
	c := measure.Comparison[assignment]{Measure: func(a assignment) (_ measure.Figures, err error) {
		if cluster == nil {
			if cluster, err = newCluster(s.owners); err != nil {
				return nil, err
			}
			run.OnClose(func() error { cluster.Close(); return nil })
		}
		cluster.ForgetRequests()
		a.Host, a.Objects, a.Profiles = cluster.URL(), s.owners, run.Profiles("operator."+a.Contender)
		return restartInProcess(a)
	}}
	return c.Cases(fmt.Sprintf("operator-of-%d", s.owners), s.rounds, assignment{Contender: "ours"}, assignment{Contender: "peer"},
		measure.Metric{Name: "restart-cpu", Unit: "ms", Omits: "the CPU time of the server, TLS and leader election"}.Within(0.4),
		measure.Metric{Name: "peak-rss", Unit: "MB", Omits: "memory that later events need"}.Within(0.7),
		measure.Metric{Name: "live-heap", Unit: "MB", Omits: "garbage and stacks"},
		measure.Metric{Name: "writes", Unit: "requests", Omits: "failures of the server", Goal: measure.AtMost(0)})
}
