//go:build race

package sharedwatch

const raceEnabled = true
