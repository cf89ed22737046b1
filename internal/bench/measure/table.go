package measure

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Table runs cases and prints a line for each as soon as it is measured.
type Table struct {
	out   io.Writer
	width int // of the column of names
}

// Run prints the machine and a header, then measures the cases that options choose, in their order. It ends at the first error.
func Run(out io.Writer, options Options, cases []Case) error {
	chosen := options.choose(cases)
	if len(chosen) == 0 {
		return fmt.Errorf("no case matches -run %s", options.Pattern)
	}
	t := &Table{out: out, width: len("name")}
	for _, c := range chosen {
		t.width = max(t.width, len(c.Name))
	}
	fmt.Fprintln(out, Machine())
	t.line("name", "ours", "peer", "ratio", "spread", "unit", "goal", "leaves out")
	start := time.Now()
	for i, c := range chosen {
		result, err := c.measure(options.rounds(), options.share(time.Since(start), len(chosen)-i))
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		t.row(c, result)
	}
	return nil
}

func (t *Table) row(c Case, r Result) {
	quotient := "-"
	if ratio, ok := r.Ratio(); ok {
		quotient = strconv.FormatFloat(ratio, 'f', 2, 64)
	}
	goal := c.Goal.String()
	if !c.Goal.Met(r) {
		goal += " MISSED"
	}
	t.line(c.Name, figure(r.Ours), figure(r.Peer), quotient, fmt.Sprintf("%.0f%%", 100*r.Spread), c.Unit, goal, c.Omits)
}

func (t *Table) line(name, ours, peer, ratio, spread, unit, goal, omits string) {
	line := fmt.Sprintf("%-*s %10s %10s %6s %6s  %-13s  %-20s  %s", t.width, name, ours, peer, ratio, spread, unit, goal, omits)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
}

// figure formats a number with three digits that count, but never fewer than those before the point and never more than three behind it.
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
