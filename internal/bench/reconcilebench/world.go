package reconcilebench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// scale says how much is measured.
type scale struct {
	objects int
	many    int // the number of objects in cases that measure only the start and the heap; 0 for none
	passes  int
	alone   int // changes that come one by one
	rounds  int
	owners  int // applications of an operator, each with a Deployment
}

var (
	thorough = scale{objects: 10_000, many: 100_000, passes: 3, alone: 2_000, rounds: 7, owners: 5_000}
	quick    = scale{objects: 10_000, passes: 1, alone: 300, rounds: 3, owners: 5_000}
)

const (
	// dataset is the data set of custom resources.
	dataset = "custom"
	// workers is the number of workers of a reconciler with more than one, the default of both
	// sides.
	workers = 8
)

// entry is a contender with a task.
type entry struct {
	contender        string
	objects, workers int
}

// world is the servers and their samples. One process measures the values for all cases.
type world struct {
	scale
	ctx      context.Context
	profiles string // folder; empty for none
	servers  map[int]*wirebench.Server
	samples  measure.Samples[entry, sample]

	cluster  *reflectortest.Server // of operators; nil until it is needed
	restarts measure.Samples[string, restarted]
}

func newWorld(ctx context.Context, s scale, profiles string) *world {
	return &world{scale: s, ctx: ctx, profiles: profiles, servers: map[int]*wirebench.Server{}, samples: measure.Samples[entry, sample]{}, restarts: measure.Samples[string, restarted]{}}
}

// prepare sees to it that there is a server with so many objects.
func (w *world) prepare(objects int) (err error) {
	if w.servers[objects] != nil {
		return nil
	}
	if w.servers[objects], err = wirebench.StartServer(w.ctx, objects); err != nil {
		delete(w.servers, objects)
		return fmt.Errorf("start a server: %w", err)
	}
	return w.servers[objects].Prepare(dataset)
}

func (w *world) close() (err error) {
	if w.cluster != nil {
		w.cluster.Close()
	}
	for _, s := range w.servers {
		err = errors.Join(err, s.Stop())
	}
	return err
}

// side returns the figures of an entry, round by round.
func (w *world) side(e entry, m metric) measure.Round { return w.samples.Side(e, w.measure, m.of) }

// measure measures an entry once.
func (w *world) measure(e entry) (sample, error) {
	a := assignment{
		Contender: e.contender, Host: w.servers[e.objects].Root(dataset), Objects: e.objects, Workers: e.workers, Passes: w.passes, Alone: w.alone,
	}
	if e.objects == w.many {
		a.Passes = 0
	}
	if e.workers == workers {
		a.Alone = 0
	}
	if w.profiles != "" {
		a.Profiles = measure.Profiles(filepath.Join(w.profiles, fmt.Sprintf("%s.%d.%d", e.contender, e.objects, e.workers)))
	}
	return worker.Measure(w.ctx, a)
}

// cases returns a case for each line of the table.
func (w *world) cases() (all []measure.Case) {
	add := func(name string, objects, workers, rounds int, metrics ...metric) {
		for _, m := range metrics {
			all = append(all, measure.Case{
				Name: name + m.name, Unit: m.unit, Omits: m.omits, Rounds: rounds,
				Sides: func() (ours, peer measure.Round, err error) {
					if err := w.prepare(objects); err != nil {
						return nil, nil, err
					}
					return w.side(entry{"ours", objects, workers}, m), w.side(entry{"peer", objects, workers}, m), nil
				},
			})
		}
	}
	add("1-worker/", w.objects, 1, w.rounds, idleRate, idleCPU, readingRate, readingCPU, restP50, restP99, eventCPU, eventWall, eventAllocs, startCPU, startWall)
	add(fmt.Sprintf("%d-workers/", workers), w.objects, workers, w.rounds, idleRate, idleCPU, readingRate, readingCPU)
	add(fmt.Sprintf("%d-objects/", w.objects), w.objects, 1, w.rounds, heap)
	all = append(all, w.operatorCases()...)
	if w.many > 0 {
		add(fmt.Sprintf("%d-objects/", w.many), w.many, 1, min(w.rounds, 3), heap, startCPU, startWall)
	}
	return all
}
