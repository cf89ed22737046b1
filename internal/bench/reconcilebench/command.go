package reconcilebench

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out. Errors in the arguments go
// to log. The program must have called [Main].
func Run(args []string, out, log io.Writer) error {
	return measure.ProcessCommand("reconcile", func(fast bool, profiles string) ([]measure.Case, func() error) {
		s := thorough
		if fast {
			s = quick
		}
		w := newWorld(context.Background(), s, profiles)
		return w.cases(), w.close
	}, args, out, log)
}

var restarter = wirebench.Worker[restart, restarted]{Variable: "KUBEREFLECTOR_BENCH_OPERATOR", Work: measureRestart}

var worker = wirebench.Worker[assignment, sample]{Variable: "KUBEREFLECTOR_BENCH_RECONCILE", Work: measureContender}

// Main does the work of a contender and exits, in a process that [Run] started; in others it returns. A program that calls Run
// calls Main and [wirebench.Main] first.
func Main() {
	worker.Main()
	restarter.Main()
}
