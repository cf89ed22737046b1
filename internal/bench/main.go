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

	"github.com/kubereflector/kubereflector/internal/bench/informerbench"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/memorybench"
	"github.com/kubereflector/kubereflector/internal/bench/reconcilebench"
	"github.com/kubereflector/kubereflector/internal/bench/referencebench"
	"github.com/kubereflector/kubereflector/internal/bench/storebench"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
)

// subcommand is one comparison. Its run parses the arguments behind its name.
type subcommand struct {
	name    string
	summary string
	run     func(args []string, out, log io.Writer) error
}

var subcommands = []subcommand{
	ofTopic(storebench.Topic),
	ofTopic(informerbench.Queue),
	ofTopic(informerbench.Topic),
	{"reconcile", "from a watch to a reconciliation, beside controller-runtime: rate, latency and memory", reconcilebench.Run},
	{"wire", "from the bytes of a server to a store and a handler, beside client-go's informers", wirebench.Run},
	{"reference", "caching by reference under controller-runtime: memory, and events that are missed", referencebench.Run},
	{"memory", "what a store keeps of each object, and what reading it costs, beside client-go's indexer", memorybench.Run},
}

func ofTopic(t measure.Topic) subcommand { return subcommand{t.Name, t.Summary, t.Run} }

// topics are the comparisons whose cases the tests of this package run.
var topics = []measure.Topic{storebench.Topic, informerbench.Queue, informerbench.Topic}

func main() {
	measure.Main()
	wirebench.Main()
	reconcilebench.Main()
	memorybench.Main()
	referencebench.Main()
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
	i := slices.IndexFunc(subcommands, func(c subcommand) bool { return c.name == args[0] })
	if i < 0 {
		fmt.Fprintf(log, "bench: there is no subcommand %q\n", args[0])
		usage(log)
		return 2
	}
	switch err := subcommands[i].run(args[1:], out, log); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	default:
		fmt.Fprintf(log, "bench %s: %v\n", args[0], err)
		return 1
	}
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: go run -C internal/bench . <subcommand> [flags]\n\nSubcommands:\n")
	for _, c := range subcommands {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nA subcommand's flags: go run -C internal/bench . <subcommand> -h\n")
}
