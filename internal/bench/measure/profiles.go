package measure

import (
	"errors"
	"os"
	"runtime/pprof"
)

// Profiles is how the names of the files begin that a process writes its profiles to; empty for no profiles.
type Profiles string

// CPU begins a profile of a phase, which stop ends.
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
