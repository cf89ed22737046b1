package wirebench

// metric is one of the figures in a sample.
type metric struct {
	name string
	unit string
	of   func(sample) float64
	// omits is what the figure leaves out.
	omits string
}

const (
	perObject = "µs/object"
	perEvent  = "µs/event"
	kilobyte  = 1000
	megabyte  = 1000 * kilobyte
)

var (
	listCPU    = metric{"first-list/cpu", perObject, func(s sample) float64 { return s.List.CPU }, "TLS, compression, and the CPU time of the server"}
	listWall   = metric{"first-list/wall", perObject, func(s sample) float64 { return s.List.Wall }, "TLS, compression, and the latency of a network"}
	listAllocs = metric{"first-list/allocations", "per object", func(s sample) float64 { return s.List.Allocs }, "allocations for TLS and compression"}
	listBytes  = metric{"first-list/allocated", "kB/object", func(s sample) float64 { return s.List.Bytes / kilobyte }, "buffers for TLS and compression"}
	listLive   = metric{"first-list/live-heap", "kB/object", func(s sample) float64 { return s.Live / kilobyte }, "garbage, stacks, and what events leave behind"}
	listPeak   = metric{"first-list/peak-heap", "MB", func(s sample) float64 { return s.Peak / megabyte }, "memory outside of the heap"}
	listRSS    = metric{"first-list/peak-rss", "MB", func(s sample) float64 { return s.RSS / megabyte }, "memory that events and relists need"}

	eventCPU    = metric{"event/cpu", perEvent, func(s sample) float64 { return s.Events.CPU }, "additions and deletions, TLS, and the CPU time of the server"}
	eventWall   = metric{"event/wall", perEvent, func(s sample) float64 { return s.Events.Wall }, "additions and deletions, and the latency of a network"}
	eventAllocs = metric{"event/allocations", "per event", func(s sample) float64 { return s.Events.Allocs }, "additions and deletions, and work of handlers"}
	eventBytes  = metric{"event/allocated", "kB/event", func(s sample) float64 { return s.Events.Bytes / kilobyte }, "additions and deletions, and work of handlers"}
	eventAlone  = metric{"event/alone", "µs", func(s sample) float64 { return s.Alone }, "the latency of a network, and other changes at the same time"}

	relistCPU    = metric{"relist/cpu", perObject, func(s sample) float64 { return s.Relist.CPU }, "objects that changed, and the CPU time of the server"}
	relistAllocs = metric{"relist/allocations", "per object", func(s sample) float64 { return s.Relist.Allocs }, "objects that changed, and work of handlers"}
	relistGrowth = metric{"relist/heap-growth", "bytes/object", func(s sample) float64 { return s.Growth }, "objects that changed, and garbage"}
)

const omitsIndex = "the upkeep of the index, and the work on what was read"

var (
	getCPU        = metric{"get/cpu", "µs", func(s sample) float64 { return s.Reads.Get.CPU }, omitsIndex}
	getSharedCPU  = metric{"get-shared/cpu", "µs", func(s sample) float64 { return s.Reads.GetShared.CPU }, omitsIndex}
	listCopyCPU   = metric{"list/cpu", perObject, func(s sample) float64 { return s.Reads.List.CPU }, omitsIndex}
	listSharedCPU = metric{"list-shared/cpu", perObject, func(s sample) float64 { return s.Reads.ListShared.CPU }, omitsIndex}
)

// relists reports whether a relist has to be measured for it.
func (m metric) relists() bool {
	return m.name == relistCPU.name || m.name == relistAllocs.name || m.name == relistGrowth.name
}

// reads reports whether reads have to be measured for it.
func (m metric) reads() bool {
	return m.name == getCPU.name || m.name == getSharedCPU.name || m.name == listCopyCPU.name || m.name == listSharedCPU.name
}
