package wirebench

import "github.com/kubereflector/kubereflector/internal/bench/measure"

const (
	perObject = "µs/object"
	perEvent  = "µs/event"
	kilobyte  = 1000
	megabyte  = 1000 * kilobyte
)

var (
	listCPU    = measure.Metric{Name: "first-list/cpu", Unit: perObject, Omits: "TLS, compression, and the CPU time of the server"}
	listWall   = measure.Metric{Name: "first-list/wall", Unit: perObject, Omits: "TLS, compression, and the latency of a network"}
	listAllocs = measure.Metric{Name: "first-list/allocations", Unit: "per object", Omits: "allocations for TLS and compression"}
	listLive   = measure.Metric{Name: "first-list/live-heap", Unit: "kB/object", Omits: "garbage, stacks, and what events leave behind"}
	listRSS    = measure.Metric{Name: "first-list/peak-rss", Unit: "MB", Omits: "memory that events and relists need"}

	eventCPU    = measure.Metric{Name: "event/cpu", Unit: perEvent, Omits: "additions and deletions, TLS, and the CPU time of the server"}
	eventWall   = measure.Metric{Name: "event/wall", Unit: perEvent, Omits: "additions and deletions, and the latency of a network"}
	eventAllocs = measure.Metric{Name: "event/allocations", Unit: "per event", Omits: "additions and deletions, and work of handlers"}
	eventAlone  = measure.Metric{Name: "event/alone", Unit: "µs", Omits: "the latency of a network, and other changes at the same time"}

	relistCPU    = measure.Metric{Name: "relist/cpu", Unit: perObject, Omits: "objects that changed, and the CPU time of the server"}
	relistAllocs = measure.Metric{Name: "relist/allocations", Unit: "per object", Omits: "objects that changed, and work of handlers", Goal: measure.AtMost(0.1)}
	relistGrowth = measure.Metric{Name: "relist/heap-growth", Unit: "bytes/object", Omits: "objects that changed, and garbage", Goal: measure.AtMost(10)}
)

const omitsIndex = "the upkeep of the index, and the work on what was read"

var (
	getCPU        = measure.Metric{Name: "get/cpu", Unit: "µs", Omits: omitsIndex}
	getSharedCPU  = measure.Metric{Name: "get-shared/cpu", Unit: "µs", Omits: omitsIndex}
	listCopyCPU   = measure.Metric{Name: "list/cpu", Unit: perObject, Omits: omitsIndex}
	listSharedCPU = measure.Metric{Name: "list-shared/cpu", Unit: perObject, Omits: omitsIndex}
)
