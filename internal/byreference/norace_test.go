//go:build !race

package byreference

const raceEnabled = false
