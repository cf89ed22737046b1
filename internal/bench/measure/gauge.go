//go:build unix

package measure

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Elapsed collects garbage and returns how long f takes then.
func Elapsed(f func()) time.Duration {
	runtime.GC()
	start := time.Now()
	f()
	return time.Since(start)
}

// PerOp returns [Elapsed] divided by the number of operations that f makes, in units: PerOp(n,
// time.Microsecond, f) is microseconds an operation.
func PerOp(operations int, unit time.Duration, f func()) float64 {
	return float64(Elapsed(f)) / float64(unit) / float64(operations)
}

// CPU collects garbage and returns the CPU time of the process while f runs then, on all of its
// threads, with the garbage collector.
func CPU(f func()) time.Duration {
	runtime.GC()
	before := used()
	f()
	return used() - before
}

// used returns the CPU time that the process has taken, for itself and in the system.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(fmt.Sprintf("getrusage of the own process: %v", err)) // there is no reason for it to fail
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Microseconds returns a duration in microseconds, with its fraction.
func Microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// idle is how long a process must do nothing for its work to be done.
const idle = 50 * time.Millisecond

// Settle waits until the process does nothing.
func Settle() {
	for before := used(); ; before = used() {
		time.Sleep(idle)
		if used()-before < time.Millisecond {
			return
		}
	}
}

// AllocationRuns is how often [Allocations] calls its function.
const AllocationRuns = 4

// Allocations returns how many heap objects the process allocates in one call of f. It leaves out
// what f allocates only the first time. The least of several calls counts, since the runtime
// allocates a little by itself at times.
func Allocations(f func()) float64 {
	f()
	least := ^uint64(0)
	for range AllocationRuns - 1 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return float64(least)
}

// LiveHeap collects garbage and returns the bytes of the heap that remain. A second collection frees
// objects that had a finalizer or were in a sync.Pool at the first.
func LiveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// PeakRSS returns the peak memory of the process in bytes. It is 0 on systems without /proc. There,
// getrusage also counts the memory of the parent process, from before the program was started.
func PeakRSS() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	text, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	kilobytes, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0
	}
	return kilobytes * 1024
}
