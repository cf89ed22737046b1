package measure

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Topic is one comparison: a subcommand of the program.
type Topic struct {
	Name    string
	Summary string

	// Processes is true if the contenders are processes, which write profiles to a folder. Without it
	// the program itself writes one CPU profile.
	Processes bool

	// Cases makes the cases in the order in which they are measured.
	Cases func(*World) []Case
}

// Run measures the cases that the arguments choose and prints a table to out. It reports errors in
// the arguments to log.
func (t Topic) Run(args []string, out, log io.Writer) error {
	var options Options
	w := &World{}
	flags := flag.NewFlagSet("bench "+t.Name, flag.ContinueOnError)
	flags.SetOutput(log)
	options.Register(flags)
	if t.Processes {
		flags.StringVar(&w.folder, "profiles", "", "write a heap profile and CPU profiles of each contender to `folder`")
	} else {
		flags.StringVar(&options.CPUProfile, "cpuprofile", "", "write a CPU profile of the chosen cases to `file`; it has both sides")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if w.folder != "" {
		if err := os.MkdirAll(w.folder, 0o755); err != nil {
			return err
		}
	}
	if options.Quick {
		w.Size = Quick
	}
	cases := t.Cases(w)
	err := options.Profile(func() error { return Run(out, options, cases) })
	return errors.Join(err, w.Close())
}

// Size says how much a run measures.
type Size int

// The sizes of runs. Tests use Tiny, whose figures mean nothing.
const (
	Thorough Size = iota
	Quick
	Tiny
)

// World is what all cases of one run share.
type World struct {
	Size   Size
	folder string // of profiles; empty for none
	close  []func() error
}

// OnClose calls f at the end of the run.
func (w *World) OnClose(f func() error) { w.close = append(w.close, f) }

// Close ends what the cases have started.
func (w *World) Close() (err error) {
	for _, f := range w.close {
		err = errors.Join(err, f())
	}
	w.close = nil
	return err
}

// Profiles returns where a contender writes its profiles.
func (w *World) Profiles(contender string) Profiles {
	if w.folder == "" {
		return ""
	}
	return Profiles(filepath.Join(w.folder, contender))
}
