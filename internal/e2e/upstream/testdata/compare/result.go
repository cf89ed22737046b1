package simulated

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/simulate"
)

// compare runs a test of an operator, and prints how it ended for TestComparison.
func compare(name, tool string, buggy bool, test func() error) {
	began, before := time.Now(), cpu()
	result := map[string]any{"name": name, "tool": tool, "buggy": buggy}
	if err := test(); err != nil {
		result["error"] = err.Error()
	}
	result["seconds"], result["cpu"] = time.Since(began).Seconds(), (cpu() - before).Seconds()
	line, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	fmt.Printf("\nRESULT %s\n", line)
}

// cpu is what this process has used, which depends less on what else the machine does.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func started(took time.Duration) { fmt.Printf("\nSTARTED %.1f\n", took.Seconds()) }

// simulated plays all schedules of a scenario. The error is the first finding.
func simulated(t *testing.T, s simulate.Scenario) error {
	findings := simulate.Find(t, s)
	if len(findings) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", findings[0].Line, findings[0].Failures[0])
}
