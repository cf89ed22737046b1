//go:build !race

package reflector

const raceEnabled = false
