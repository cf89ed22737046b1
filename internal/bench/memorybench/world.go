package memorybench

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
)

// scale says how much is measured.
type scale struct {
	objects int
	reads   int // of random keys
	walks   int
	rounds  int
}

var (
	thorough = scale{objects: 100_000, reads: 200_000, walks: 2, rounds: 3}
	quick    = scale{objects: 20_000, reads: 40_000, walks: 2, rounds: 1}
)

// dataset is that of pods of Deployments.
const dataset = "pods"

// world is a server, and what was measured with it: a process measures all that any case wants to know of it.
type world struct {
	scale
	ctx      context.Context
	profiles string // folder; empty for none
	server   *wirebench.Server
	samples  map[string][]sample // by contender
}

func newWorld(ctx context.Context, s scale, profiles string) *world {
	return &world{scale: s, ctx: ctx, profiles: profiles, samples: map[string][]sample{}}
}

// prepare sees to it that there is a server.
func (w *world) prepare() error {
	if w.server != nil {
		return nil
	}
	server, err := wirebench.StartServer(w.ctx, w.objects)
	if err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	w.server = server
	return server.Prepare(dataset)
}

// within lets a world be used, and ends its server.
func (w *world) within(use func() error) error {
	err := use()
	if w.server != nil {
		if stopped := w.server.Stop(); err == nil {
			err = stopped
		}
	}
	return err
}

// side returns the figures of a contender, round by round. Cases share what was measured.
func (w *world) side(contender string, m metric) measure.Round {
	round := 0
	return func() (float64, error) {
		s, err := w.sample(contender, round)
		round++
		return m.of(s), err
	}
}

// sample returns what was measured in a round.
func (w *world) sample(contender string, round int) (sample, error) {
	for len(w.samples[contender]) <= round {
		a := assignment{Contender: contender, Host: w.server.Root(dataset), Objects: w.objects, Reads: w.reads, Walks: w.walks}
		if w.profiles != "" {
			a.Profiles = measure.Profiles(filepath.Join(w.profiles, contender))
		}
		s, err := inProcess(w.ctx, a)
		if err != nil {
			return sample{}, err
		}
		w.samples[contender] = append(w.samples[contender], s)
	}
	return w.samples[contender][round], nil
}
