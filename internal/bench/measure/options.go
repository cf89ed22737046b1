package measure

import (
	"flag"
	"os"
	"regexp"
	"runtime/pprof"
	"time"
)

// Options is what the flags of a subcommand say about measuring. The zero value measures every case thoroughly.
type Options struct {
	// Quick measures fewer rounds, for a first look, and fewer still where the machine is so slow or so busy that it would take minutes.
	Quick bool

	// Pattern chooses the cases whose names it matches anywhere; nil chooses all.
	Pattern *regexp.Regexp

	// CPUProfile is the file to write a CPU profile to; empty for none.
	CPUProfile string
}

// Rounds a side, unless the case has its own number.
const (
	quickRounds    = 3
	thoroughRounds = 11
)

// quickTime is what a quick run may take, without what the subcommand does before. The case that runs when it is over is finished, and every other one
// is measured once, so a busy machine takes longer.
const quickTime = 25 * time.Second

// Register adds the flags -quick and -run.
func (o *Options) Register(flags *flag.FlagSet) {
	flags.BoolVar(&o.Quick, "quick", o.Quick, "measure fewer rounds")
	flags.Func("run", "measure only the cases whose name matches `regexp`", func(pattern string) (err error) {
		o.Pattern, err = regexp.Compile(pattern)
		return err
	})
}

// Profile runs f, and writes its CPU profile if one was asked for.
func (o *Options) Profile(f func() error) (err error) {
	if o.CPUProfile == "" {
		return f()
	}
	file, err := os.Create(o.CPUProfile)
	if err != nil {
		return err
	}
	defer func() {
		pprof.StopCPUProfile()
		if closing := file.Close(); err == nil {
			err = closing
		}
	}()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	return f()
}

func (o *Options) rounds() int {
	if o.Quick {
		return quickRounds
	}
	return thoroughRounds
}

// share returns the time limit of the next case: its part of the time that remains for it and the
// later cases. 0 means no limit.
func (o *Options) share(spent time.Duration, cases int) time.Duration {
	if !o.Quick {
		return 0
	}
	return max(1, (quickTime-spent)/time.Duration(cases))
}

func (o *Options) choose(cases []Case) []Case {
	if o.Pattern == nil {
		return cases
	}
	var chosen []Case
	for _, c := range cases {
		if o.Pattern.MatchString(c.Name) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}
