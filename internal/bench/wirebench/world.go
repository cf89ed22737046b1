package wirebench

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

// scale says how much is measured.
type scale struct {
	objects int
	alone   int // changes that come one by one
	rounds  int
}

var (
	thorough = scale{objects: 20_000, alone: 200, rounds: 3}
	quick    = scale{objects: 2_000, alone: 50, rounds: 1}
)

// entry is a contender with a task.
type entry struct{ contender, dataset, mode string }

// world is a server and the samples of its contenders. One process measures the values for all
// cases.
type world struct {
	scale
	ctx      context.Context
	profiles string // folder; empty for none
	server   *Server
	samples  measure.Samples[entry, sample]
	relists  map[entry]bool // the entries for which a case needs relists
	reads    map[entry]bool // the entries for which a case needs reads
}

func newWorld(ctx context.Context, s scale, profiles string) *world {
	w := &world{scale: s, ctx: ctx, profiles: profiles, samples: measure.Samples[entry, sample]{}, relists: map[entry]bool{}, reads: map[entry]bool{}}
	for _, p := range pairings {
		for _, l := range p.lines {
			for _, name := range []string{p.ours, p.peer} {
				e := entry{name, p.dataset, p.mode}
				w.relists[e] = w.relists[e] || l.relists()
				w.reads[e] = w.reads[e] || l.reads()
			}
		}
	}
	return w
}

// prepare sees to it that there is a server, and that it has a data set.
func (w *world) prepare(dataset string) (err error) {
	if w.server == nil {
		if w.server, err = StartServer(w.ctx, w.objects); err != nil {
			return fmt.Errorf("start the server: %w", err)
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
	a := assignment{Contender: e.contender, Dataset: e.dataset, Objects: w.objects, Relist: w.relists[e], Reads: w.reads[e], Alone: w.alone}
	if w.profiles != "" {
		a.Profiles = measure.Profiles(filepath.Join(w.profiles, fmt.Sprintf("%s.%s.%s", e.contender, e.dataset, e.mode)))
	}
	return w.server.measure(w.ctx, a, e.mode)
}
