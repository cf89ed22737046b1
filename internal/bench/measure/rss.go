package measure

import (
	"bytes"
	"os"
	"strconv"
)

// PeakRSS returns the peak memory of the process in bytes. It is 0 on systems without /proc. There,
// getrusage also counts the memory of the parent process, from before the program was started.
func PeakRSS() float64 {
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
