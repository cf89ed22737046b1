package storebench

import (
	"flag"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out. What is wrong with the arguments goes to log.
func Run(args []string, out, log io.Writer) error {
	var options measure.Options
	flags := flag.NewFlagSet("bench store", flag.ContinueOnError)
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

// cases are in the order in which they are measured. Those that only read come first, since caches that were written to are filled again for the next
// case, which takes a second.
func (w *world) cases() []measure.Case {
	var all []measure.Case
	for _, cases := range [][]measure.Case{w.readCases(), w.walkCases(), w.updateCases(), w.pauseCases(), w.heapCases()} {
		all = append(all, cases...)
	}
	return all
}
