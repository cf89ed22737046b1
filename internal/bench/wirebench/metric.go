package wirebench

// metric is one of the figures in a sample.
type metric struct {
	name string
	unit string
	of   func(sample) float64
}

const (
	perObject = "µs/object"
	perEvent  = "µs/event"
	kilobyte  = 1000
	megabyte  = 1000 * kilobyte
)

var (
	listCPU    = metric{"first-list/cpu", perObject, func(s sample) float64 { return s.List.CPU }}
	listWall   = metric{"first-list/wall", perObject, func(s sample) float64 { return s.List.Wall }}
	listAllocs = metric{"first-list/allocations", "per object", func(s sample) float64 { return s.List.Allocs }}
	listBytes  = metric{"first-list/allocated", "kB/object", func(s sample) float64 { return s.List.Bytes / kilobyte }}
	listLive   = metric{"first-list/live-heap", "kB/object", func(s sample) float64 { return s.Live / kilobyte }}
	listPeak   = metric{"first-list/peak-heap", "MB", func(s sample) float64 { return s.Peak / megabyte }}
	listRSS    = metric{"first-list/peak-rss", "MB", func(s sample) float64 { return s.RSS / megabyte }}

	eventCPU    = metric{"event/cpu", perEvent, func(s sample) float64 { return s.Events.CPU }}
	eventWall   = metric{"event/wall", perEvent, func(s sample) float64 { return s.Events.Wall }}
	eventAllocs = metric{"event/allocations", "per event", func(s sample) float64 { return s.Events.Allocs }}
	eventBytes  = metric{"event/allocated", "kB/event", func(s sample) float64 { return s.Events.Bytes / kilobyte }}
	eventAlone  = metric{"event/alone", "µs", func(s sample) float64 { return s.Alone }}

	relistCPU    = metric{"relist/cpu", perObject, func(s sample) float64 { return s.Relist.CPU }}
	relistAllocs = metric{"relist/allocations", "per object", func(s sample) float64 { return s.Relist.Allocs }}
	relistGrowth = metric{"relist/heap-growth", "bytes/object", func(s sample) float64 { return s.Growth }}
)

// relists reports whether a relist has to be measured for it.
func (m metric) relists() bool {
	return m.name == relistCPU.name || m.name == relistAllocs.name || m.name == relistGrowth.name
}
