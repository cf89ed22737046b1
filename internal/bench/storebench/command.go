package storebench

import (
	"io"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out.
// It reports errors in the arguments to log.
func Run(args []string, out, log io.Writer) error {
	return measure.Command("store", func() []measure.Case { return newWorld(full).cases() }, args, out, log)
}

// cases are in the order in which they are measured. Those that only read come first, since caches that were written to are filled again for the next
// case, which takes a second.
func (w *world) cases() []measure.Case {
	var all []measure.Case
	for _, cases := range [][]measure.Case{w.readCases(), w.walkCases(), w.updateCases(), w.listCases(), w.typeCases(), w.lagCases(), w.pauseCases(), w.heapCases()} {
		all = append(all, cases...)
	}
	return all
}
