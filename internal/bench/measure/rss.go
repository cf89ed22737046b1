package measure

import (
	"bytes"
	"os"
	"strconv"
)

// PeakRSS returns the most memory that the process has had, in bytes. It is 0 where there is no /proc: what getrusage says includes what the process
// had before its program was started, which is that of its parent.
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
