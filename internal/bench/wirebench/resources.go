package wirebench

import (
	"runtime"
	"syscall"
	"time"
)

// cpuTime returns what the process has used of all processors, in user and system mode.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it can only be a wrong argument
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// peakHeap returns the most memory that the heap has had, in bytes.
func peakHeap() float64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapSys)
}
