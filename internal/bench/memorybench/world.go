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

// templated is the data set of pods of Deployments with 20 replicas.
const templated = "pods"

// entry is a contender with the objects that it holds.
type entry struct{ contender, dataset string }

// world is a server and the samples of its contenders. One process measures the values for all
// cases.
type world struct {
	scale
	ctx      context.Context
	profiles string // folder; empty for none
	server   *wirebench.Server
	samples  measure.Samples[entry, sample]
}

func newWorld(ctx context.Context, s scale, profiles string) *world {
	return &world{scale: s, ctx: ctx, profiles: profiles, samples: measure.Samples[entry, sample]{}}
}

// prepare starts the server, and has it build a data set.
func (w *world) prepare(dataset string) (err error) {
	if w.server == nil {
		if w.server, err = wirebench.StartServer(w.ctx, w.objects); err != nil {
			return fmt.Errorf("start a server: %w", err)
		}
	}
	return w.server.Prepare(dataset)
}

func (w *world) close() error {
	if w.server == nil {
		return nil
	}
	return w.server.Stop()
}

// side returns the figures of an entry, round by round.
func (w *world) side(e entry, m metric) measure.Round { return w.samples.Side(e, w.measure, m.of) }

// measure measures an entry once.
func (w *world) measure(e entry) (sample, error) {
	a := assignment{Contender: e.contender, Host: w.server.Root(e.dataset), Objects: w.objects, Reads: w.reads, Walks: w.walks}
	if w.profiles != "" {
		a.Profiles = measure.Profiles(filepath.Join(w.profiles, e.contender+"."+e.dataset))
	}
	return worker.Measure(w.ctx, a)
}
