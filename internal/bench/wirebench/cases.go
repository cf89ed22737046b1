package wirebench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Topic is the subcommand "wire".
var Topic = measure.Topic{Name: "wire", Summary: "from the bytes of a server to a store and a handler, beside client-go's informers", Processes: true, Cases: cases}

// assignment is what a process is to measure.
type assignment struct {
	Contender, Dataset, Mode string

	Host     string // the root of the API server
	Objects  int
	Relist   bool
	Reads    bool
	Alone    int // changes that come one by one
	Profiles measure.Profiles
}

// pairing is two contenders that do the same, and the values to compare.
type pairing struct {
	name, dataset, mode string
	ours, peer          string
	metrics             []measure.Metric
}

type metrics = []measure.Metric

var (
	relistMetrics = metrics{relistCPU.Within(1.0 / 25), relistAllocs, relistGrowth}
	unlikeMetrics = metrics{listCPU.Within(1.05), listAllocs.Within(1.05), listLive.Within(1.05), eventCPU.Within(1.05), eventAllocs.Within(1.05)}
	fieldMetrics  = metrics{listCPU, listAllocs, listLive, listRSS, eventCPU}
	readMetrics   = metrics{getCPU.Within(0.9), getSharedCPU.Within(0.9), listCopyCPU.Within(0.9), listSharedCPU.Within(0.9)}
)

// pairings are in the order in which they are measured.
//
// Both sides by default get their first list from a watch that begins with the state. Cases whose
// name has "-list" use a list, as with servers that do not support such watches. So do all cases
// with a floor.
var pairings = []pairing{
	{"json/typed", "pods", apiserver.Streams, "ours-json", "typed-json", slices.Concat(
		metrics{listCPU.Within(1.0 / 8), listWall.Within(1.0 / 10), listLive.Within(0.45), listRSS.Within(0.5), listAllocs},
		metrics{eventCPU.Within(1.0 / 8), eventWall, eventAllocs, eventAlone}, relistMetrics)},
	{"json/dynamic", "pods", apiserver.Streams, "ours-json", "dynamic", metrics{
		listCPU.Within(1.0 / 10), listWall.Within(1.0 / 12), listAllocs, listLive, listRSS, eventCPU.Within(1.0 / 10), eventAllocs}},
	{"json-unshared/typed", "pods", apiserver.Streams, "ours-json-unshared", "typed-json", metrics{
		listCPU.Within(1.0 / 4), eventCPU.Within(1.0 / 4), listWall, listLive, eventAllocs}},
	{"unstructured/dynamic", "pods", apiserver.Streams, "ours-unstructured", "dynamic", metrics{listCPU, listWall, listLive, listRSS, eventCPU}},
	{"json-list/typed", "pods", apiserver.Lists, "ours-json", "typed-json", slices.Concat(
		metrics{listCPU.Within(1.0 / 8), listWall.Within(1.0 / 10), listRSS.Within(0.5)}, relistMetrics)},
	{"json-unshared-list/floor", "pods", apiserver.Lists, "store-json-unshared", "floor-json", metrics{
		listCPU.Within(1.1), eventCPU.Within(1.1), listWall, listLive}},
	{"json-list/floor", "pods", apiserver.Lists, "store-json", "floor-json", metrics{listCPU, eventCPU, listLive}},

	{"protobuf/typed", "pods", apiserver.Streams, "ours-protobuf", "typed-protobuf", slices.Concat(
		metrics{listCPU, listWall.Within(0.65), listLive.Within(0.75), listRSS.Within(0.8), listAllocs},
		metrics{eventCPU, eventWall, eventAllocs, eventAlone}, relistMetrics)},
	{"protobuf-unshared/typed", "pods", apiserver.Streams, "ours-protobuf-unshared", "typed-protobuf", metrics{listCPU, listWall, listLive, eventCPU}},
	{"protobuf-list/typed", "pods", apiserver.Lists, "ours-protobuf", "typed-protobuf", slices.Concat(
		metrics{listCPU, listWall.Within(0.65), listRSS.Within(0.8)}, relistMetrics)},
	{"protobuf-list/floor", "pods", apiserver.Lists, "store-protobuf", "floor-protobuf", metrics{listCPU.Within(1), eventCPU.Within(1)}},

	// The cost of sharing where there is nothing to share.
	{"json-unlike/unshared", "unlike", apiserver.Streams, "ours-json", "ours-json-unshared", unlikeMetrics},
	{"protobuf-unlike/unshared", "unlike", apiserver.Streams, "ours-protobuf", "ours-protobuf-unshared", unlikeMetrics},

	// The objects of a cluster in the field, between those extremes.
	{"json-field/typed", "field", apiserver.Streams, "ours-json", "typed-json", fieldMetrics},
	{"protobuf-field/typed", "field", apiserver.Streams, "ours-protobuf", "typed-protobuf", fieldMetrics},
	// A struct with six fields saves the work of the others. The server sends the whole object to both.
	{"json-few-fields/whole", "field", apiserver.Streams, "ours-few-fields", "ours-json", metrics{listCPU.Within(0.6), listLive.Within(0.4), listAllocs, eventCPU}},
	{"secrets/typed", "secrets", apiserver.Streams, "ours-protobuf", "typed-protobuf", fieldMetrics},
	{"configmaps/typed", "configmaps", apiserver.Streams, "ours-protobuf", "typed-protobuf", fieldMetrics},
	{"custom/dynamic", "custom", apiserver.Streams, "ours-struct", "dynamic", metrics{listCPU, listWall, listAllocs, listLive, listRSS, eventCPU, eventAllocs}},

	// Informers of a factory beside those of client-go's.
	{"factory/field", "field", apiserver.Streams, "factory", "typed-protobuf", metrics{listCPU.Within(0.6), listRSS.Within(0.65), listLive, eventCPU}},
	{"factory/secrets", "secrets", apiserver.Streams, "factory", "typed-protobuf", fieldMetrics},
	{"factory/configmaps", "configmaps", apiserver.Streams, "factory", "typed-protobuf", fieldMetrics},
	{"factory-generated/field", "field", apiserver.Streams, "factory-generated", "typed-protobuf", metrics{
		eventCPU.Within(0.95), listRSS.Within(1), listCPU, listLive}},

	// Caches of controller-runtime, with its informers and with ours. Pods come as protobuf, custom
	// resources as JSON.
	{"controller-runtime/custom", "custom", apiserver.Streams, "ours-in-runtime", "controller-runtime", slices.Concat(
		metrics{listCPU.Within(0.25), listRSS.Within(0.55), eventCPU.Within(0.25), listLive}, readMetrics)},
	{"controller-runtime/field", "field", apiserver.Streams, "ours-in-runtime", "controller-runtime", slices.Concat(
		metrics{listCPU.Within(0.6), listRSS.Within(0.65), eventCPU.Within(0.65), listLive}, readMetrics)},
	{"controller-runtime/unlike", "unlike", apiserver.Streams, "ours-in-runtime", "controller-runtime", metrics{
		listCPU.Within(0.8), listRSS.Within(0.9), eventCPU.Within(0.9), listLive}},
}

// unlikeRounds is how often a thorough run measures two sides that are ours and share nothing. They
// are so alike that the medians of a few processes say nothing.
const unlikeRounds = 11

func cases(run *measure.World) (all []measure.Case) {
	type scale struct{ objects, alone, rounds int }
	s := map[measure.Size]scale{measure.Thorough: {20_000, 200, 3}, measure.Quick: {2_000, 50, 1}, measure.Tiny: {60, 2, 1}}[run.Size]
	server := apiserver.NewServer(run, s.objects)
	c := measure.Comparison[assignment]{Measure: func(a assignment) (_ measure.Figures, err error) {
		a.Objects, a.Alone, a.Profiles = s.objects, s.alone, run.Profiles(fmt.Sprintf("%s.%s.%s", a.Contender, a.Dataset, a.Mode))
		if a.Host, err = server.HostIn(a.Dataset, a.Mode); err != nil {
			return nil, err
		}
		return measureInProcess(complete(a))
	}}
	for _, p := range pairings {
		rounds := s.rounds
		if run.Size == measure.Thorough && p.peer == p.ours+"-unshared" {
			rounds = unlikeRounds
		}
		all = append(all, c.Cases(p.name, rounds, p.assignment(p.ours), p.assignment(p.peer), p.metrics...)...)
	}
	return all
}

func (p pairing) assignment(contender string) assignment {
	return assignment{Contender: contender, Dataset: p.dataset, Mode: p.mode}
}

// complete adds all phases that any case needs, because the cases share the figures.
func complete(a assignment) assignment {
	for _, p := range pairings {
		if p.dataset != a.Dataset || p.mode != a.Mode || p.ours != a.Contender && p.peer != a.Contender {
			continue
		}
		for _, m := range p.metrics {
			a.Relist = a.Relist || strings.HasPrefix(m.Name, "relist/")
			a.Reads = a.Reads || m.Name == getCPU.Name
		}
	}
	return a
}
