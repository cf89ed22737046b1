package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

// variable marks a process of a contender. It has the name of the work and the assignment.
const variable = "KUBEREFLECTOR_BENCH"

// works are by name. Packages register theirs when they are initialized.
var works = map[string]func(assignment []byte) error{}

// Main does the work of a process that [InProcess] made, and exits. In other processes it returns. A
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

// InProcess registers work that measures, and returns a function that does the work in a process of
// its own. The process runs this program.
func InProcess[A any](name string, work func(A) (Figures, error)) func(A) (Figures, error) {
	works[name] = func(text []byte) error {
		var assignment A
		if err := json.Unmarshal(text, &assignment); err != nil {
			return err
		}
		figures, err := work(assignment)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(figures)
	}
	return func(assignment A) (figures Figures, err error) {
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

// Figures are what a process measured, by the names of metrics.
type Figures map[string]float64

// Phase measures do as the phase of a name, for each of so many objects: CPU and wall time in
// microseconds, and allocations. It writes a CPU profile.
func (f Figures) Phase(p Profiles, name string, objects int, do func() error) error {
	stop, err := p.CPU(name)
	if err != nil {
		return err
	}
	var before, after runtime.MemStats
	var wall time.Duration
	cpu := CPU(func() {
		runtime.ReadMemStats(&before)
		begin := time.Now()
		err = do()
		wall = time.Since(begin)
	})
	runtime.ReadMemStats(&after)
	n := float64(objects)
	f[name+"/cpu"], f[name+"/wall"] = Microseconds(cpu)/n, Microseconds(wall)/n
	f[name+"/allocations"] = float64(after.Mallocs-before.Mallocs) / n
	return errors.Join(err, stop())
}

// Profiles is the beginning of the names of a process's profiles; empty for no profiles.
type Profiles string

// CPU begins a profile of a phase. stop ends the profile.
func (p Profiles) CPU(phase string) (stop func() error, err error) {
	if p == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(string(p) + "." + phase + ".cpu")
	if err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, pprof.StartCPUProfile(file)
}

// Heap writes a profile of the live heap after a phase, and of all allocations so far.
func (p Profiles) Heap(phase string) error {
	if p == "" {
		return nil
	}
	file, err := os.Create(string(p) + "." + phase + ".heap")
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}
