package wirebench

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
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

// peakRSS returns the most memory that the process has had, in bytes. It is 0 where there is no /proc: what getrusage says includes what the process
// had before its program was started, which is that of its parent.
func peakRSS() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, err := strconv.ParseFloat(string(fields[0]), 64)
	if err != nil {
		return 0
	}
	return kilobytes * 1024
}

// peakHeap returns the most memory that the heap has had, in bytes.
func peakHeap() float64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapSys)
}
