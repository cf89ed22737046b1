package informerbench

import (
	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// looking is what looks at the informers of the cases "load": each alone, and then together.
var looking = []instruments{
	{}, // the difference that two runs have anyhow
	{page: true},
	{metrics: true},
	{traces: chosenTraces},
	{traces: sampledTraces},
	{traces: allTraces},
	{page: true, metrics: true},
	{page: true, metrics: true, traces: chosenTraces},
	{page: true, metrics: true, traces: allTraces},
}

// goal is what may be lost where not every call of a handler has a span.
func (i instruments) goal() measure.Goal {
	if i.traces == sampledTraces || i.traces == allTraces {
		return measure.Goal{}
	}
	return measure.RatioAtMost(1.03)
}

// watchedCases compares informers that are looked at with the same that are not.
func (w *world) watchedCases() (cases []measure.Case) {
	for _, with := range looking {
		open := func(handlers int, server *server) (subject, error) { return newWatched(with, handlers, server) }
		cases = append(cases,
			measure.Case{Name: "load/" + with.name() + "/cpu", Unit: "ns/event", Sides: w.between(1, cpu, false, open, newOurs)},
			measure.Case{Name: "load/" + with.name() + "/wall", Unit: "ns/event", Sides: w.between(1, wall, false, open, newOurs)},
			measure.Case{Name: "load/wire/" + with.name() + "/cpu", Omits: "sockets, work of handlers, and sending spans", Unit: "ns/event", Goal: with.goal(), Best: true, Sides: w.between(1, cpu, true, open, newOurs)},
		)
	}
	return cases
}
