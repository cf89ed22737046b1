package informerbench

import (
	"flag"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out. What is wrong with the arguments goes to log.
func Run(args []string, out, log io.Writer) error {
	var options measure.Options
	flags := flag.NewFlagSet("bench informer", flag.ContinueOnError)
	flags.SetOutput(log)
	options.Register(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	w := newWorld(full)
	return options.Profile(func() error { return measure.Run(out, options, w.cases()) })
}

func (w *world) cases() []measure.Case {
	var cases []measure.Case
	for _, handlers := range []int{1, 10, 100} {
		name := fmt.Sprintf("fan-out/%d/", handlers)
		cases = append(cases,
			measure.Case{Name: name + "cpu", Unit: "ns/call", Sides: w.sides(handlers, cpu)},
			measure.Case{Name: name + "wall", Unit: "ns/call", Sides: w.sides(handlers, wall)},
			measure.Case{Name: name + "allocations", Unit: "allocs/call", Rounds: 1, Sides: w.sides(handlers, allocations)},
		)
	}
	return append(cases, measure.Case{Name: "idle/memory", Unit: "bytes/handler", Rounds: 1, Sides: w.idleMemory})
}
