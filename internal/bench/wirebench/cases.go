package wirebench

import (
	"slices"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// pairing is two contenders that do the same, and the values to compare.
type pairing struct {
	name       string
	dataset    string
	mode       string
	ours, peer string
	lines      []line
}

// line is a figure that is compared, and the goal if there is one.
type line struct {
	metric
	goal measure.Goal
}

func atMost(m metric, ratio float64) line { return line{m, measure.RatioAtMost(ratio)} }

func without(metrics ...metric) (lines []line) {
	for _, m := range metrics {
		lines = append(lines, line{metric: m})
	}
	return lines
}

// pairings are in the order in which they are measured.
var pairings = slices.Concat(jsonPairings, protobufPairings, unlikePairings, fieldPairings, customPairings, factoryPairings, runtimePairings)

var relistLines = []line{
	atMost(relistCPU, 1.0/25), {relistAllocs, measure.AtMost(0.1)}, {relistGrowth, measure.AtMost(10)},
}

// Both sides by default get their first list from a watch that begins with the state. Cases that
// end in "-list" use a list, as with servers that do not support such watches. So do all cases with
// a floor.
var jsonPairings = []pairing{
	{"json/typed", "pods", streams, "ours-json", "typed-json", slices.Concat(
		[]line{atMost(listCPU, 1.0/8), atMost(listWall, 1.0/10), atMost(listLive, 0.45), atMost(listRSS, 0.5)},
		without(listAllocs, listBytes, listPeak),
		[]line{atMost(eventCPU, 1.0/8)}, without(eventWall, eventAllocs, eventBytes, eventAlone), relistLines)},
	{"json/dynamic", "pods", streams, "ours-json", "dynamic", slices.Concat(
		[]line{atMost(listCPU, 1.0/10), atMost(listWall, 1.0/12)}, without(listAllocs, listLive, listRSS),
		[]line{atMost(eventCPU, 1.0/10)}, without(eventAllocs))},
	{"json-unshared/typed", "pods", streams, "ours-json-unshared", "typed-json", slices.Concat(
		[]line{atMost(listCPU, 1.0/4), atMost(eventCPU, 1.0/4)}, without(listWall, listLive, eventAllocs))},
	{"json-unshared/dynamic", "pods", streams, "ours-json-unshared", "dynamic", []line{atMost(listCPU, 1.0/5), atMost(eventCPU, 1.0/5)}},
	{"json-unmanaged/typed", "pods", streams, "ours-json-unmanaged", "typed-json", without(listCPU, listLive, listRSS, eventCPU)},
	{"unstructured/dynamic", "pods", streams, "ours-unstructured", "dynamic", without(listCPU, listWall, listLive, listRSS, eventCPU)},
	{"json-list/typed", "pods", lists, "ours-json", "typed-json", slices.Concat(
		[]line{atMost(listCPU, 1.0/8), atMost(listWall, 1.0/10), atMost(listRSS, 0.5)}, relistLines)},
	{"json-unshared-list/floor", "pods", lists, "store-json-unshared", "floor-json", slices.Concat(
		[]line{atMost(listCPU, 1.1), atMost(eventCPU, 1.1)}, without(listWall, listLive))},
	{"json-list/floor", "pods", lists, "store-json", "floor-json", without(listCPU, eventCPU, listLive)},
}

var protobufPairings = []pairing{
	{"protobuf/typed", "pods", streams, "ours-protobuf", "typed-protobuf", slices.Concat(
		without(listCPU), []line{atMost(listWall, 0.65), atMost(listLive, 0.75), atMost(listRSS, 0.8)}, without(listAllocs, listBytes, listPeak),
		without(eventCPU, eventWall, eventAllocs, eventBytes, eventAlone), relistLines)},
	{"protobuf-unmanaged/typed", "pods", streams, "ours-protobuf-unmanaged", "typed-protobuf", slices.Concat(
		[]line{atMost(listLive, 0.66)}, without(listCPU, eventCPU))},
	{"protobuf-unshared/typed", "pods", streams, "ours-protobuf-unshared", "typed-protobuf", without(listCPU, listWall, listLive, eventCPU)},
	{"protobuf-list/typed", "pods", lists, "ours-protobuf", "typed-protobuf", slices.Concat(
		without(listCPU), []line{atMost(listWall, 0.65), atMost(listRSS, 0.8)}, relistLines)},
	{"protobuf-list/floor", "pods", lists, "store-protobuf", "floor-protobuf", []line{atMost(listCPU, 1), atMost(eventCPU, 1)}},
}

// unlikePairings are what sharing costs where there is nothing to share: both sides are ours, and so alike that the medians of a few processes say nothing.
var unlikePairings = []pairing{
	{"json-unlike/unshared", "unlike", streams, "ours-json", "ours-json-unshared", unlikeLines},
	{"protobuf-unlike/unshared", "unlike", streams, "ours-protobuf", "ours-protobuf-unshared", unlikeLines},
}

var unlikeLines = []line{
	atMost(listCPU, 1.05), atMost(listAllocs, 1.05), atMost(listLive, 1.05), atMost(eventCPU, 1.05), atMost(eventAllocs, 1.05),
}

// fieldPairings are the objects of a cluster in the field, between those extremes.
var fieldPairings = []pairing{
	{"json-field/typed", "field", streams, "ours-json", "typed-json", fieldLines},
	{"json-field/unshared", "field", streams, "ours-json", "ours-json-unshared", fieldLines},
	{"protobuf-field/typed", "field", streams, "ours-protobuf", "typed-protobuf", fieldLines},
	{"protobuf-field/unshared", "field", streams, "ours-protobuf", "ours-protobuf-unshared", fieldLines},
	// A struct with six fields saves the work of the others. The server sends the whole object to both.
	{"json-few-fields/whole", "field", streams, "ours-few-fields", "ours-json", slices.Concat(
		[]line{atMost(listCPU, 0.6), atMost(listLive, 0.4)}, without(listAllocs, eventCPU))},
	{"secrets/typed", "secrets", streams, "ours-protobuf", "typed-protobuf", fieldLines},
	{"secrets/unshared", "secrets", streams, "ours-protobuf", "ours-protobuf-unshared", fieldLines},
	{"configmaps/typed", "configmaps", streams, "ours-protobuf", "typed-protobuf", fieldLines},
	{"configmaps/unshared", "configmaps", streams, "ours-protobuf", "ours-protobuf-unshared", fieldLines},
}

var fieldLines = without(listCPU, listAllocs, listLive, listRSS, eventCPU)

var customPairings = []pairing{
	{"custom/dynamic", "custom", streams, "ours-struct", "dynamic", without(listCPU, listWall, listAllocs, listLive, listRSS, eventCPU, eventAllocs)},
}

// factoryPairings are informers of a factory beside those of client-go's.
var factoryPairings = []pairing{
	{"factory/field", "field", streams, "factory", "typed-protobuf", slices.Concat(
		[]line{atMost(listCPU, 0.6), atMost(listRSS, 0.65)}, without(listLive, eventCPU))},
	{"factory/secrets", "secrets", streams, "factory", "typed-protobuf", fieldLines},
	{"factory/configmaps", "configmaps", streams, "factory", "typed-protobuf", fieldLines},
	{"factory-generated/field", "field", streams, "factory-generated", "typed-protobuf", slices.Concat(
		[]line{atMost(eventCPU, 0.95), atMost(listRSS, 1)}, without(listCPU, listLive))},
}

// runtimePairings are caches of controller-runtime, with its informers and with ours. Pods come as
// protobuf, custom resources as JSON.
var runtimePairings = []pairing{
	{"controller-runtime/custom", "custom", streams, "ours-in-runtime", "controller-runtime", slices.Concat([]line{
		atMost(listCPU, 0.25), atMost(listRSS, 0.55), atMost(eventCPU, 0.25), {metric: listLive},
	}, readLines)},
	{"controller-runtime/field", "field", streams, "ours-in-runtime", "controller-runtime", slices.Concat([]line{
		atMost(listCPU, 0.6), atMost(listRSS, 0.65), atMost(eventCPU, 0.65), {metric: listLive},
	}, readLines)},
	{"controller-runtime/unlike", "unlike", streams, "ours-in-runtime", "controller-runtime", []line{
		atMost(listCPU, 0.8), atMost(listRSS, 0.9), atMost(eventCPU, 0.9), {metric: listLive},
	}},
}

var readLines = []line{atMost(getCPU, 0.9), atMost(getSharedCPU, 0.9), atMost(listCopyCPU, 0.9), atMost(listSharedCPU, 0.9)}

// unlikeTurns is how often each side of such a pairing is measured by a thorough run.
const unlikeTurns = 11

// turns returns how often each side of a pairing is measured. They take turns, and the medians are compared.
func (w *world) turns(p pairing) int {
	if p.dataset == "unlike" && p.peer == p.ours+"-unshared" && w.rounds >= thorough.rounds {
		return unlikeTurns
	}
	return w.rounds
}

// cases returns a case for each line.
func (w *world) cases() (all []measure.Case) {
	for _, p := range pairings {
		for _, l := range p.lines {
			all = append(all, measure.Case{
				Name: p.name + "/" + l.name, Unit: l.unit, Omits: l.omits, Goal: l.goal, Rounds: w.turns(p),
				Sides: func() (ours, peer measure.Round, err error) {
					if err := w.prepare(p.dataset); err != nil {
						return nil, nil, err
					}
					return w.side(entry{p.ours, p.dataset, p.mode}, l.metric), w.side(entry{p.peer, p.dataset, p.mode}, l.metric), nil
				},
			})
		}
	}
	return all
}
