package measure

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Topic is one comparison: a subcommand of the program.
type Topic struct {
	Name    string
	Summary string
	// Cases makes the cases in the order in which they are measured.
	Cases func(*World) []Case
}

// Size says how much a run measures.
type Size int

// The sizes of runs. Tests use Tiny, whose figures mean nothing.
const (
	Thorough Size = iota
	Quick
	Tiny
)

// World is what all cases of one run share.
type World struct {
	Size   Size
	folder string // of profiles; empty for none
}

// Profiles returns where a contender writes its profiles.
func (w *World) Profiles(contender string) Profiles {
	if w.folder == "" {
		return ""
	}
	return Profiles(filepath.Join(w.folder, contender))
}

// Run measures the cases that the arguments choose and prints a table to out. It reports errors in
// the arguments to log.
func (t Topic) Run(args []string, out, log io.Writer) error {
	w, pattern := &World{}, regexp.MustCompile("")
	flags := flag.NewFlagSet("bench "+t.Name, flag.ContinueOnError)
	flags.SetOutput(log)
	quick := flags.Bool("quick", false, "measure fewer rounds")
	flags.StringVar(&w.folder, "profiles", "", "write the profiles of this process and of the contenders' processes to `folder`")
	file := flags.String("o", "", "write the run with the figures of all rounds to `file`, as JSON")
	flags.Func("run", "measure only the cases whose name matches `regexp`", func(text string) (err error) {
		pattern, err = regexp.Compile(text)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if w.folder != "" {
		if err := os.MkdirAll(w.folder, 0o755); err != nil {
			return err
		}
	}
	if *quick {
		w.Size = Quick
	}
	report := NewReport(strings.Join(append([]string{"go run -C internal/bench .", t.Name}, args...), " "))
	stop, err := w.Profiles(t.Name).CPU("cases")
	if err != nil {
		return err
	}
	if err := errors.Join(run(out, pattern, w.Size, t.Cases(w), report), stop()); err != nil || *file == "" {
		return err
	}
	return report.WriteFile(*file)
}

// Rounds of each side, unless the case has its own number, and the time after which a quick run
// measures every other case once.
const (
	quickRounds    = 3
	thoroughRounds = 11
	quickTime      = 25 * time.Second
)

// run prints the machine and a header, then measures the cases that the pattern matches. It prints a
// line for each as soon as it is measured, and ends at the first error.
func run(out io.Writer, pattern *regexp.Regexp, size Size, cases []Case, report *Report) error {
	var chosen []Case
	width := len("name")
	for _, c := range cases {
		if pattern.MatchString(c.Name) {
			chosen = append(chosen, c)
			width = max(width, len(c.Name))
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no case matches -run %s", pattern)
	}
	line := func(name, ours, peer, ratio, spread, unit, goal, omits string) {
		line := fmt.Sprintf("%-*s %10s %10s %6s %6s  %-13s  %-20s  %s", width, name, ours, peer, ratio, spread, unit, goal, omits)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	fmt.Fprintf(out, "%s, load %s, client-go %s\n", report.Machine, report.Load, report.Versions["k8s.io/client-go"])
	line("name", "ours", "peer", "ratio", "spread", "unit", "goal", "leaves out")
	rounds, end := thoroughRounds, time.Time{}
	if size == Quick {
		rounds, end = quickRounds, time.Now().Add(quickTime)
	}
	for i, c := range chosen {
		limit := time.Duration(0)
		if size == Quick { // each case gets its part of the time that remains
			limit = max(1, time.Until(end)/time.Duration(len(chosen)-i))
		}
		r, err := c.measure(rounds, limit)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		report.add(c, r)
		ratio, goal := "-", c.Goal.String()
		if r.peer != 0 {
			ratio = strconv.FormatFloat(r.ours/r.peer, 'f', 2, 64)
		}
		if !c.Goal.Met(r.ours, r.peer) {
			goal += " MISSED"
		}
		line(c.Name, figure(r.ours), figure(r.peer), ratio, fmt.Sprintf("%.0f%%", 100*r.spread), c.Unit, goal, c.Omits)
	}
	return nil
}

// figure formats a number with three significant digits, but with all digits before the point, and at
// most three behind it.
func figure(v float64) string {
	decimals := 0
	switch magnitude := math.Abs(v); {
	case magnitude == 0 || magnitude >= 100:
	case magnitude >= 10:
		decimals = 1
	case magnitude >= 1:
		decimals = 2
	default:
		decimals = 3
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
