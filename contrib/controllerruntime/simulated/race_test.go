//go:build race

package simulated

// plays is how often a line is played. The race detector makes each play several times slower.
const plays = 3
