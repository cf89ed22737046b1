//go:build !race

package simulated

// plays is how often a line is played.
const plays = 20
