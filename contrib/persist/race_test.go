//go:build race

package persist

func init() { raceEnabled = true }
