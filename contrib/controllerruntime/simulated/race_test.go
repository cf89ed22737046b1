//go:build race

package simulated

// The race detector makes each play several times slower, and most schedules run the same code.
const (
	plays = 3
	most  = 25
)
