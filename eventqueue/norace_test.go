//go:build !race

package eventqueue

const raceEnabled = false
