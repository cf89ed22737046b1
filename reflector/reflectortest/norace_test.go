//go:build !race

package reflectortest_test

const raceEnabled = false
