package memorybench

import (
	"context"
	"flag"
	"io"
	"os"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// Run is the subcommand: it measures the cases that its arguments choose and prints a table to out. What is wrong with the arguments goes to log. The
// program must have called [Main].
func Run(args []string, out, log io.Writer) error {
	var options measure.Options
	flags := flag.NewFlagSet("bench memory", flag.ContinueOnError)
	flags.SetOutput(log)
	options.RegisterChoice(flags)
	profiles := flags.String("profiles", "", "write a heap profile and CPU profiles of each contender to `folder`")
	if err := measure.Parse(flags, args); err != nil {
		return err
	}
	if *profiles != "" {
		if err := os.MkdirAll(*profiles, 0o755); err != nil {
			return err
		}
	}
	s := thorough
	if options.Quick {
		s = quick
	}
	w := newWorld(context.Background(), s, *profiles)
	return w.within(func() error { return measure.Run(out, options, w.cases()) })
}
