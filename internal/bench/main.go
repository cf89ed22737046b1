// Command bench compares this library with the libraries that it replaces, on the same data. Each
// of its subcommands is one comparison.
//
//	go run -C internal/bench . store -quick
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/kubereflector/kubereflector/internal/bench/factorybench"
	"github.com/kubereflector/kubereflector/internal/bench/fleetbench"
	"github.com/kubereflector/kubereflector/internal/bench/informerbench"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/memorybench"
	"github.com/kubereflector/kubereflector/internal/bench/reconcilebench"
	"github.com/kubereflector/kubereflector/internal/bench/referencebench"
	"github.com/kubereflector/kubereflector/internal/bench/storebench"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
)

// topics are the subcommands.
var topics = []measure.Topic{
	storebench.Topic, informerbench.Queue, informerbench.Topic, reconcilebench.Topic, wirebench.Topic, referencebench.Topic, memorybench.Topic, factorybench.Topic, fleetbench.Topic,
}

func main() {
	measure.Main()
	os.Exit(bench(os.Args[1:], os.Stdout, os.Stderr))
}

// bench returns the exit code: 2 means that the command line makes no sense, as it does in package flag.
func bench(args []string, out, log io.Writer) int {
	if len(args) == 0 {
		usage(log)
		return 2
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		usage(out)
		return 0
	}
	i := slices.IndexFunc(topics, func(t measure.Topic) bool { return t.Name == args[0] })
	if i < 0 {
		fmt.Fprintf(log, "bench: there is no subcommand %q\n", args[0])
		usage(log)
		return 2
	}
	switch err := topics[i].Run(args[1:], out, log); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	default:
		fmt.Fprintf(log, "bench %s: %v\n", args[0], err)
		return 1
	}
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: go run -C internal/bench . <subcommand> [flags]\n\nSubcommands:\n")
	for _, t := range topics {
		fmt.Fprintf(w, "  %-10s %s\n", t.Name, t.Summary)
	}
	fmt.Fprint(w, "\nA subcommand's flags: go run -C internal/bench . <subcommand> -h\n")
}
