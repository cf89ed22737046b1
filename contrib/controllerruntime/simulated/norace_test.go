//go:build !race

package simulated

// plays is how often a line is played, and most how many schedules an exploration has; 0 means all.
const (
	plays = 20
	most  = 0
)
