package memorybench

import "github.com/kubereflector/kubereflector/internal/bench/measure"

// assignment is what a process is to measure.
type assignment struct {
	Contender string           `json:"contender"`
	Host      string           `json:"host"` // the root of the API server
	Objects   int              `json:"objects"`
	Reads     int              `json:"reads"` // of random keys
	Walks     int              `json:"walks"`
	Profiles  measure.Profiles `json:"profiles"` // how the files begin that profiles go to; empty for none
}

// sample is what a process measured.
type sample struct {
	Live float64 `json:"live"` // heap when the store is filled, in bytes an object
	RSS  float64 `json:"rss"`  // the most memory until then, in bytes an object
	Fill float64 `json:"fill"` // CPU time of filling, in microseconds an object
	Read float64 `json:"read"` // CPU time of a read of a random key, in microseconds
	// Allocated is by such a read, in bytes.
	Allocated float64 `json:"allocated"`
	Walk      float64 `json:"walk"` // CPU time of a walk, in microseconds an object
}

// metric is one of the figures in a sample.
type metric struct {
	name, unit string
	of         func(sample) float64
	omits      string // what the figure leaves out
}

const kilobyte = 1000

var (
	live      = metric{"live-heap", "kB/object", func(s sample) float64 { return s.Live / kilobyte }, "garbage, stacks, and what updates leave behind"}
	rss       = metric{"peak-rss", "kB/object", func(s sample) float64 { return s.RSS / kilobyte }, "memory that updates and relists need"}
	fill      = metric{"fill/cpu", "µs/object", func(s sample) float64 { return s.Fill }, "TLS, compression, and the CPU time of the server"}
	read      = metric{"read/cpu", "µs", func(s sample) float64 { return s.Read }, "misses, and updates at the same time"}
	allocated = metric{"read/allocated", "kB", func(s sample) float64 { return s.Allocated / kilobyte }, "misses, and updates at the same time"}
	walk      = metric{"walk/cpu", "µs/object", func(s sample) float64 { return s.Walk }, "updates at the same time"}
)
