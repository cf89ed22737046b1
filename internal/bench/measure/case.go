package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Round measures one side of a case once.
type Round func() (float64, error)

// Case is one line of a table.
type Case struct {
	// Name has no spaces. A slash separates the operation from its variant.
	Name string
	Unit string
	Goal Goal
	// Omits says in one line what the figure leaves out.
	Omits string

	// Rounds is how often each side is measured; 0 leaves it to [Options].
	Rounds int

	// Best takes the least of the figures of a side instead of their median: of CPU times, to which others on the machine only add.
	Best bool

	// Sides prepares the case and returns a round for each side. It is called once, and only if the case was chosen.
	Sides func() (ours, peer Round, err error)
}

// Omitting sets the omission text of the cases that have none.
func Omitting(text string, cases ...Case) []Case {
	for i := range cases {
		cases[i].Omits = cmp.Or(cases[i].Omits, text)
	}
	return cases
}

// Result is the figures of a case that was measured.
type Result struct {
	Ours, Peer float64
	// Spread is how far the figures of a side lie apart, as a part of its median: of the side where
	// it is more.
	Spread float64
}

// Ratio returns ours divided by the peer's, and false if that says nothing.
func (r Result) Ratio() (float64, bool) {
	if r.Peer == 0 {
		return 0, false
	}
	return r.Ours / r.Peer, true
}

// Goal is what a case is to reach. The zero Goal is no goal: the case is there to explain others.
type Goal struct {
	kind  goalKind
	limit float64
}

type goalKind uint8

const (
	none goalKind = iota
	ratio
	absolute
)

// RatioAtMost is the goal that ours is at most limit times the peer's.
func RatioAtMost(limit float64) Goal { return Goal{kind: ratio, limit: limit} }

// AtMost is the goal that ours is at most limit, in the unit of the case, whatever the peer's is.
func AtMost(limit float64) Goal { return Goal{kind: absolute, limit: limit} }

// Met reports whether a result reaches the goal.
func (g Goal) Met(r Result) bool {
	switch g.kind {
	case ratio:
		return r.Ours <= g.limit*r.Peer
	case absolute:
		return r.Ours <= g.limit
	default:
		return true
	}
}

// String returns the goal as the table shows it, such as "ratio<=0.6", "ours<=2.5" or "-".
func (g Goal) String() string {
	switch g.kind {
	case ratio:
		return fmt.Sprintf("ratio<=%g", g.limit)
	case absolute:
		return fmt.Sprintf("ours<=%g", g.limit)
	default:
		return "-"
	}
}

// measure runs both sides in turn, once at least, each of them first every other time, and begins no further round when the time is over. No limit is 0.
func (c Case) measure(rounds int, limit time.Duration) (Result, error) {
	start := time.Now()
	if c.Rounds > 0 {
		rounds = c.Rounds
	}
	ours, peer, err := c.Sides()
	if err != nil {
		return Result{}, err
	}
	var figures [2][]float64
	for n := range rounds {
		if limit > 0 && n > 0 && time.Since(start) >= limit {
			break
		}
		for i := range figures {
			side := (n + i) % 2 // the second side finds another heap and other caches
			figure, err := [...]Round{ours, peer}[side]()
			if err != nil {
				return Result{}, err
			}
			figures[side] = append(figures[side], figure)
		}
	}
	result := Result{Ours: Median(figures[0]), Peer: Median(figures[1])}
	for i, median := range []float64{result.Ours, result.Peer} {
		if median != 0 {
			result.Spread = max(result.Spread, (slices.Max(figures[i])-slices.Min(figures[i]))/math.Abs(median))
		}
	}
	if c.Best {
		result.Ours, result.Peer = slices.Min(figures[0]), slices.Min(figures[1])
	}
	return result, nil
}
