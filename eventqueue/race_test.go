//go:build race

package eventqueue

// raceEnabled is true if the race detector runs. A sync.Pool then drops some of what it gets.
const raceEnabled = true
