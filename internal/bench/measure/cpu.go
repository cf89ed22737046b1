//go:build unix

package measure

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// CPU collects garbage and returns how much CPU time the process takes while f runs then, on all of its threads: also what the garbage collector does
// meanwhile. It is less than the wall time if f waits, and more if it works in parallel.
func CPU(f func()) time.Duration {
	runtime.GC()
	before := Used()
	f()
	return Used() - before
}

// Used returns the CPU time that the process has taken, for itself and in the system.
func Used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(fmt.Sprintf("getrusage of the own process: %v", err)) // there is no reason for it to fail
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
