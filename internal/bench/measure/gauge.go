package measure

import (
	"runtime"
	"time"
)

// Elapsed collects garbage and returns how long f takes then.
func Elapsed(f func()) time.Duration {
	runtime.GC()
	start := time.Now()
	f()
	return time.Since(start)
}

// PerOp returns [Elapsed] divided by the number of operations that f makes, in units: PerOp(n, time.Microsecond, f) is microseconds an operation.
func PerOp(operations int, unit time.Duration, f func()) float64 {
	return float64(Elapsed(f)) / float64(unit) / float64(operations)
}

// Allocations returns how many heap objects one call of f allocates. The whole process is counted, so nothing else may run meanwhile. What f allocates
// only the first time is left out, and of several calls the least counts, since the runtime allocates a little by itself at times.
func Allocations(f func()) float64 {
	f()
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return float64(least)
}

// LiveHeap returns the bytes of the heap that are in use after everything that can go is gone. A second collection frees what had a finalizer or was in
// a sync.Pool at the first.
func LiveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
