package wirebench

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out. Errors in the arguments go
// to log. The program must have called [Main].
func Run(args []string, out, log io.Writer) error {
	return measure.ProcessCommand("wire", func(fast bool, profiles string) ([]measure.Case, func() error) {
		s := thorough
		if fast {
			s = quick
		}
		w := newWorld(context.Background(), s, profiles)
		return w.cases(), w.close
	}, args, out, log)
}
