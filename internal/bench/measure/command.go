package measure

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Command is a subcommand that has only the flags of [Options]. It measures the cases that its
// arguments choose and prints a table to out. It reports errors in the arguments to log. It creates
// the cases after it has checked the arguments.
func Command(name string, cases func() []Case, args []string, out, log io.Writer) error {
	var options Options
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	flags.SetOutput(log)
	options.Register(flags)
	flags.StringVar(&options.CPUProfile, "cpuprofile", "", "write a CPU profile of the chosen cases to `file`; it has both sides")
	if err := Parse(flags, args); err != nil {
		return err
	}
	all := cases()
	return options.Profile(func() error { return Run(out, options, all) })
}

// ProcessCommand is [Command] for a topic whose contenders are processes, which write profiles to a
// folder. prepare returns the cases and a function that ends what they need.
func ProcessCommand(name string, prepare func(quick bool, profiles string) (cases []Case, stop func() error), args []string, out, log io.Writer) error {
	var options Options
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	flags.SetOutput(log)
	options.Register(flags)
	profiles := flags.String("profiles", "", "write a heap profile and CPU profiles of each contender to `folder`")
	if err := Parse(flags, args); err != nil {
		return err
	}
	if *profiles != "" {
		if err := os.MkdirAll(*profiles, 0o755); err != nil {
			return err
		}
	}
	cases, stop := prepare(options.Quick, *profiles)
	return errors.Join(Run(out, options, cases), stop())
}

// Parse parses the arguments of a subcommand, which has nothing but flags.
func Parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}
