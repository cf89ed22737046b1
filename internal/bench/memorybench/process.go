package memorybench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
)

// variable is that by which a process knows that it is a contender of this package. It has an assignment.
const variable = "KUBEREFLECTOR_BENCH_MEMORY"

// Main is to be called first by every program that calls [Run], which starts the same program again, for each contender: in those it does their work and
// exits. Otherwise it returns. Such programs call [wirebench.Main] as well.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	var a assignment
	err := json.Unmarshal([]byte(text), &a)
	if err == nil {
		var s sample
		if s, err = measureContender(a); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(s)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// inProcess lets a process do an assignment.
func inProcess(ctx context.Context, a assignment) (s sample, err error) {
	text, err := json.Marshal(a)
	if err != nil {
		return s, err
	}
	c, err := wirebench.Command(ctx, variable, string(text))
	if err != nil {
		return s, err
	}
	output, err := c.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return s, fmt.Errorf("%s with %d objects: %w", a.Contender, a.Objects, err)
	}
	return s, json.Unmarshal(output, &s)
}
