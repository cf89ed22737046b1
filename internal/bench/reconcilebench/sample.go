package reconcilebench

import "github.com/kubereflector/kubereflector/internal/bench/measure"

// assignment is what a process is to measure.
type assignment struct {
	Contender string           `json:"contender"`
	Host      string           `json:"host"` // the root of the API server
	Objects   int              `json:"objects"`
	Workers   int              `json:"workers"`
	Passes    int              `json:"passes"`   // over all keys; 0 measures nothing but what the start takes
	Alone     int              `json:"alone"`    // changes that come one by one; 0 measures none, nor those that come together
	Profiles  measure.Profiles `json:"profiles"` // how the files begin that profiles go to; empty for none
}

// sample is what a process measured.
type sample struct {
	Start measure.Usage `json:"start"` // from nothing to the last reconciliation of all objects
	Event measure.Usage `json:"event"` // from the server to the reconciliation, when all objects change

	Idle    rate `json:"idle"`    // of reconciliations that do nothing
	Reading rate `json:"reading"` // and of those that read the object

	P50 float64 `json:"p50"` // from an event to its reconciliation when nothing else happens, in microseconds
	P99 float64 `json:"p99"`

	Heap float64 `json:"heap"` // the live heap after the start, in bytes
}

// rate is the speed of reconciliations whose keys wait.
type rate struct {
	Second float64 `json:"second"` // how many are in one
	CPU    float64 `json:"cpu"`    // of one, in microseconds
}

// metric is one of the figures in a sample.
type metric struct {
	name, unit string
	of         func(sample) float64
	omits      string // what the figure leaves out
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
	startCPU    = metric{"start/cpu", perObject, func(s sample) float64 { return s.Start.CPU }, "TLS, compression, and the CPU time of the server"}
	startWall   = metric{"start/wall", perObject, func(s sample) float64 { return s.Start.Wall }, "TLS, compression, and the latency of a network"}
	idleRate    = metric{"rate/no-op", perSecond, func(s sample) float64 { return s.Idle.Second }, "the way of an event to the queue"}
	readingRate = metric{"rate/read", perSecond, func(s sample) float64 { return s.Reading.Second }, "the way of an event to the queue, and writes"}
	idleCPU     = metric{"rate/no-op-cpu", perCall, func(s sample) float64 { return s.Idle.CPU }, "the way of an event to the queue"}
	readingCPU  = metric{"rate/read-cpu", perCall, func(s sample) float64 { return s.Reading.CPU }, "the way of an event to the queue, and writes"}
	eventCPU    = metric{"event/cpu", perEvent, func(s sample) float64 { return s.Event.CPU }, "additions and deletions, and work of reconcilers"}
	eventWall   = metric{"event/wall", perEvent, func(s sample) float64 { return s.Event.Wall }, "additions and deletions, and the latency of a network"}
	eventAllocs = metric{"event/allocations", "per event", func(s sample) float64 { return s.Event.Allocs }, "additions and deletions, and work of reconcilers"}
	restP50     = metric{"rest/p50", micros, func(s sample) float64 { return s.P50 }, "the server, the network, and other changes at the same time"}
	restP99     = metric{"rest/p99", micros, func(s sample) float64 { return s.P99 }, "the server, the network, and other changes at the same time"}
	heap        = metric{"heap", "MB", func(s sample) float64 { return s.Heap / megabyte }, "garbage, stacks, and what events leave behind"}
)
