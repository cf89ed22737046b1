package measure

import (
	"flag"
	"fmt"
	"io"
)

// Command is a subcommand that has the flags of [Options] and nothing else: it measures the cases that its arguments choose and prints a table to out. What
// is wrong with the arguments goes to log. Cases are made once it is known that the arguments make sense.
func Command(name string, cases func() []Case, args []string, out, log io.Writer) error {
	var options Options
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	flags.SetOutput(log)
	options.Register(flags)
	if err := Parse(flags, args); err != nil {
		return err
	}
	all := cases()
	return options.Profile(func() error { return Run(out, options, all) })
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
