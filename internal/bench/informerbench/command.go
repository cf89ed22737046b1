package informerbench

import (
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out.
// It reports errors in the arguments to log.
func Run(args []string, out, log io.Writer) error {
	return measure.Command("informer", func() []measure.Case { return newWorld(full).cases() }, args, out, log)
}

func (w *world) cases() []measure.Case {
	var cases []measure.Case
	for _, handlers := range []int{1, 10, 100, 1000} {
		name := fmt.Sprintf("fan-out/%d/", handlers)
		cases = append(cases,
			measure.Case{Name: name + "cpu", Unit: "ns/call", Sides: w.sides(handlers, cpu)},
			measure.Case{Name: name + "wall", Unit: "ns/call", Sides: w.sides(handlers, wall)},
			measure.Case{Name: name + "allocations", Unit: "allocs/call", Rounds: 1, Sides: w.sides(handlers, allocations)},
		)
	}
	cases = measure.Omitting("sockets, decoding, and work of handlers", append(cases, w.watchedCases()...)...)
	return append(cases, measure.Case{Name: "idle/memory", Omits: "what handlers keep after events", Unit: "bytes/handler", Rounds: 1, Sides: w.idleMemory})
}
