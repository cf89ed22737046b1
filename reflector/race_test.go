//go:build race

package reflector

const raceEnabled = true
