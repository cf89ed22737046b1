//go:build !race

package jobset

const raceEnabled = false
