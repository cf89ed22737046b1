package wirebench

import (
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Topic is the subcommand "wire".
var Topic = measure.Topic{Name: "wire", Summary: "from the bytes of a server to a store and a handler, beside client-go's informers", Cases: cases}

// assignment is the work of a process.
type assignment struct {
	Contender, Dataset, Features string

	Host     string // the root of the API server
	Objects  int
	Turns    int // changes of each object
	Alone    int // changes that come one by one
	Profiles measure.Profiles
}

const (
	perObject = "µs/object"
	perEvent  = "µs/event"
	kilobyte  = 1000
	megabyte  = 1000 * kilobyte

	omitsIndex = "the upkeep of the index, and the work on the objects"
)

var (
	listCPU    = measure.Metric{Name: "first-list/cpu", Unit: perObject, Omits: "TLS, compression, and the CPU time of the server"}
	listWall   = measure.Metric{Name: "first-list/wall", Unit: perObject, Omits: "TLS, compression, and the latency of a network"}
	listAllocs = measure.Metric{Name: "first-list/allocations", Unit: "per object", Omits: "allocations for TLS and compression"}
	listLive   = measure.Metric{Name: "first-list/live-heap", Unit: "kB/object", Omits: "garbage, stacks, and what events leave behind"}
	listRSS    = measure.Metric{Name: "first-list/peak-rss", Unit: "MB", Omits: "memory that events and relists need"}

	eventCPU   = measure.Metric{Name: "event/cpu", Unit: perEvent, Omits: "additions and deletions, TLS, and the CPU time of the server"}
	eventAlone = measure.Metric{Name: "event/alone", Unit: "µs", Omits: "the latency of a network, and other changes at the same time"}

	relistCPU    = measure.Metric{Name: "relist/cpu", Unit: perObject, Omits: "objects that changed, and the CPU time of the server"}
	relistAllocs = measure.Metric{Name: "relist/allocations", Unit: "per object", Omits: "objects that changed, and work of handlers", Goal: measure.AtMost(0.1)}
	relistGrowth = measure.Metric{Name: "relist/heap-growth", Unit: "bytes/object", Omits: "objects that changed, and garbage", Goal: measure.AtMost(10)}
)

type metrics = []measure.Metric

var (
	relistMetrics = metrics{relistCPU.Within(1.0 / 25), relistAllocs, relistGrowth}
	unlikeMetrics = metrics{listCPU.Within(1.05), listAllocs.Within(1.05), listLive.Within(1.05), eventCPU.Within(1.05)}
	fieldMetrics  = metrics{listCPU, listAllocs, listLive, listRSS, eventCPU}
	readMetrics   = metrics{
		{Name: "get/cpu", Unit: "µs", Omits: omitsIndex, Goal: measure.RatioAtMost(0.9)}, {Name: "get-shared/cpu", Unit: "µs", Omits: omitsIndex, Goal: measure.RatioAtMost(0.9)},
		{Name: "list/cpu", Unit: perObject, Omits: omitsIndex, Goal: measure.RatioAtMost(0.9)}, {Name: "list-shared/cpu", Unit: perObject, Omits: omitsIndex, Goal: measure.RatioAtMost(0.9)},
	}
	observedMetrics = metrics{{Name: eventCPU.Name, Unit: perEvent, Omits: "sockets of observers, work of handlers, and sending spans", Goal: measure.RatioAtMost(1.03)}}
)

// pairings are two contenders that do the same work, and the figures to compare.
//
// Both sides by default get their first list from a watch that begins with the state. Cases with
// "-list" in their name use a list, as with servers that do not support such watches. They measure no
// events, which are the same.
var pairings = []struct {
	name, dataset, ours, peer string
	metrics                   metrics
}{
	{"json/typed", "pods", "ours-json", "typed-json", slices.Concat(
		metrics{listCPU.Within(1.0 / 8), listWall.Within(1.0 / 10), listLive.Within(0.45), listRSS.Within(0.5), listAllocs, eventCPU.Within(1.0 / 8), eventAlone}, relistMetrics)},
	{"json/dynamic", "pods", "ours-json", "dynamic", metrics{listCPU.Within(1.0 / 10), listLive, listRSS, eventCPU.Within(1.0 / 10)}},
	{"json-unshared/typed", "pods", "ours-json-unshared", "typed-json", metrics{listCPU.Within(0.14), eventCPU.Within(0.14), listLive.Within(0.8)}},
	{"unstructured/dynamic", "pods", "ours-unstructured", "dynamic", metrics{listCPU.Within(0.3), listLive.Within(0.6), listRSS, eventCPU.Within(0.3)}},
	{"json-list/typed", "pods", "ours-json", "typed-json", slices.Concat(metrics{listCPU.Within(1.0 / 8), listRSS.Within(0.5)}, relistMetrics)},
	{"json-unshared-list/floor", "pods", "store-json-unshared", "floor-json", metrics{listCPU.Within(1.1)}},
	{"json-list/floor", "pods", "store-json", "floor-json", metrics{listCPU}},

	{"protobuf/typed", "pods", "ours-protobuf", "typed-protobuf", slices.Concat(
		metrics{listCPU, listWall.Within(0.65), listLive.Within(0.75), listRSS.Within(0.8), listAllocs, eventCPU, eventAlone.Within(1)}, relistMetrics)},
	{"protobuf-unshared/typed", "pods", "ours-protobuf-unshared", "typed-protobuf", metrics{listCPU.Within(0.7), listLive.Within(0.9), eventCPU.Within(0.85)}},
	{"protobuf-list/floor", "pods", "store-protobuf", "floor-protobuf", metrics{listCPU.Within(1)}},

	// The cost of sharing where there is nothing to share.
	{"json-unlike/unshared", "unlike", "ours-json", "ours-json-unshared", unlikeMetrics},
	{"protobuf-unlike/unshared", "unlike", "ours-protobuf", "ours-protobuf-unshared", unlikeMetrics},

	// The objects of a cluster in the field, between those extremes.
	{"json-field/typed", "field", "ours-json", "typed-json", fieldMetrics},
	{"protobuf-field/typed", "field", "ours-protobuf", "typed-protobuf", fieldMetrics},
	// A struct with six fields saves the work of the others. The server sends the whole object to both.
	{"json-few-fields/whole", "field", "ours-few-fields", "ours-json", metrics{listCPU.Within(0.6), listLive.Within(0.4), eventCPU}},
	{"secrets/typed", "secrets", "ours-protobuf", "typed-protobuf", fieldMetrics},
	{"configmaps/typed", "configmaps", "ours-protobuf", "typed-protobuf", fieldMetrics},
	{"custom/dynamic", "custom", "ours-struct", "dynamic", fieldMetrics},

	// Informers of a factory beside those of client-go's.
	{"factory/field", "field", "factory", "typed-protobuf", metrics{listCPU.Within(0.6), listRSS.Within(0.65), listLive, eventCPU}},
	{"factory/secrets", "secrets", "factory", "typed-protobuf", fieldMetrics},
	{"factory/configmaps", "configmaps", "factory", "typed-protobuf", fieldMetrics},
	{"factory-generated/field", "field", "factory-generated", "typed-protobuf", metrics{eventCPU.Within(0.95), listRSS.Within(1), listCPU}},

	// Caches of controller-runtime, with its informers and with ours. Pods come as protobuf, custom
	// resources as JSON.
	{"controller-runtime/custom", "custom", "ours-in-runtime", "controller-runtime", slices.Concat(
		metrics{listCPU.Within(0.25), listRSS.Within(0.55), eventCPU.Within(0.25), listLive}, readMetrics)},
	{"controller-runtime/field", "field", "ours-in-runtime", "controller-runtime", slices.Concat(
		metrics{listCPU.Within(0.6), listRSS.Within(0.65), eventCPU.Within(0.65), listLive}, readMetrics)},
	{"controller-runtime/unlike", "unlike", "ours-in-runtime", "controller-runtime", metrics{
		listCPU.Within(0.8), listRSS.Within(0.9), eventCPU.Within(0.9), listLive}},

	// An informer that a page, metrics or traces observe, beside one that nothing observes.
	{"observed/page", "field", "observed-page", "ours-json", observedMetrics},
	{"observed/metrics", "field", "observed-metrics", "ours-json", observedMetrics},
	{"observed/traces-1%", "field", "observed-traces-1%", "ours-json", observedMetrics},
	// Each call of a handler has a span.
	{"observed/traces-100%", "field", "observed-traces-100%", "ours-json", metrics{{Name: eventCPU.Name, Unit: perEvent, Omits: observedMetrics[0].Omits}}},
}

// alikeRounds is how often a thorough run measures two sides that both are ours and do nearly the
// same. The medians of a few processes say nothing about them.
const alikeRounds = 11

// observedTurns makes the changes last for many refreshes of the page and many scrapes.
const observedTurns = 10

func cases(run *measure.World) (all []measure.Case) {
	type scale struct{ objects, alone, rounds, observed int }
	s := map[measure.Size]scale{measure.Thorough: {20_000, 200, 3, observedTurns}, measure.Quick: {2_000, 50, 1, observedTurns}, measure.Tiny: {60, 2, 1, 1}}[run.Size]
	servers := &apiserver.Servers{Objects: s.objects}
	c := measure.Comparison[assignment]{Measure: func(a assignment) (measure.Figures, error) {
		server, err := servers.Start(a.Dataset, a.Features)
		if err != nil {
			return nil, err
		}
		defer server.Close()
		a.Host, a.Objects, a.Alone, a.Profiles = server.URL, s.objects, s.alone, run.Profiles(a.Contender+"."+a.Dataset+"."+a.Features)
		return measureInProcess(a)
	}}
	for _, p := range pairings {
		a := assignment{Contender: p.ours, Dataset: p.dataset, Features: apiserver.Streams, Turns: 1}
		if strings.Contains(p.name, "-list/") {
			a.Features = apiserver.Lists
		}
		observed, rounds := strings.HasPrefix(p.name, "observed/"), s.rounds
		if observed {
			a.Turns = s.observed
		}
		if run.Size == measure.Thorough && (observed || p.peer == p.ours+"-unshared") {
			rounds = alikeRounds
		}
		peer := a
		peer.Contender = p.peer
		all = append(all, c.Cases(p.name, rounds, a, peer, p.metrics...)...)
	}
	return all
}
