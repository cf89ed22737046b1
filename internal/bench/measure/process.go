package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// variable marks a process that [Command] made. It has the name of the work and the assignment.
const variable = "KUBEREFLECTOR_BENCH"

// works are by name. Packages register theirs when they are initialized.
var works = map[string]func(assignment []byte) error{}

// Main does the work of a process that [Command] made, and exits. In other processes it returns. A
// program that measures calls it first.
func Main() {
	name, assignment, ok := strings.Cut(os.Getenv(variable), " ")
	if !ok {
		return
	}
	if err := works[name]([]byte(assignment)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Register adds work that a process can do, and returns a function that makes such a process. The
// process runs this program.
func Register[A any](name string, work func(A) error) func(A) (*exec.Cmd, error) {
	works[name] = func(text []byte) error {
		var assignment A
		if err := json.Unmarshal(text, &assignment); err != nil {
			return err
		}
		return work(assignment)
	}
	return func(assignment A) (*exec.Cmd, error) {
		text, err := json.Marshal(assignment)
		if err != nil {
			return nil, err
		}
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		c := exec.Command(program)
		c.Env = append(os.Environ(), variable+"="+name+" "+string(text))
		return c, nil
	}
}

// Figures are what a process measured, by the names of metrics.
type Figures map[string]float64

// InProcess registers work that measures, and returns a function that does the work in a process of
// its own.
func InProcess[A any](name string, work func(A) (Figures, error)) func(A) (Figures, error) {
	command := Register(name, func(assignment A) error {
		figures, err := work(assignment)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(figures)
	})
	return func(assignment A) (figures Figures, err error) {
		c, err := command(assignment)
		if err != nil {
			return nil, err
		}
		output, err := c.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr) // otherwise left out: client-go logs there
		}
		if err != nil {
			return nil, fmt.Errorf("measure %+v: %w", assignment, err)
		}
		return figures, json.Unmarshal(output, &figures)
	}
}
