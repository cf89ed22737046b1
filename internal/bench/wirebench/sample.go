package wirebench

import "github.com/kubereflector/kubereflector/internal/bench/measure"

// sample is what a process measured of its contender.
type sample struct {
	List   measure.Usage `json:"list"`   // from nothing to a handler that knows all objects
	Events measure.Usage `json:"events"` // one change of each object
	Relist measure.Usage `json:"relist"` // of objects that did not change
	Reads  reads         `json:"reads"`

	Live float64 `json:"live"` // heap after the first list, in bytes an object
	Peak float64 `json:"peak"` // heap until then, in bytes
	RSS  float64 `json:"rss"`  // the most memory until then, in bytes
	// Growth is by how much a relist makes the live heap grow, in bytes an object.
	Growth float64 `json:"growth"`
	// Alone is from a change to its handler when nothing else changes: the median, in microseconds.
	Alone float64 `json:"alone"`
}

// assignment is what a process is to measure.
type assignment struct {
	Contender string           `json:"contender"`
	Dataset   string           `json:"dataset"`
	Host      string           `json:"host"` // the root of the API server
	Objects   int              `json:"objects"`
	Relist    bool             `json:"relist"`
	Reads     bool             `json:"reads"`
	Alone     int              `json:"alone"`    // changes that come one by one
	Profiles  measure.Profiles `json:"profiles"` // how the files begin that profiles go to; empty for none
}
