package referencebench

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scale says how much is measured.
type scale struct {
	objects int
	bytes   int // of each
	rounds  int
}

var (
	thorough = scale{objects: 5_000, bytes: 32_000, rounds: 3}
	quick    = scale{objects: 1_000, bytes: 32_000, rounds: 1}
)

const (
	namespace = "default"
	used      = 20 // Secrets that are owned, and that are referenced
	ownedBy   = "example.com/owned"
)

// name returns the name of a Secret. The first ones are owned, then come the referenced ones.
func name(i int) string { return fmt.Sprintf("secret-%05d", i) }

// world is a server and the samples of the contenders.
type world struct {
	scale
	ctx      context.Context
	profiles string // folder; empty for none
	server   *reflectortest.Server
	samples  measure.Samples[string, sample]
}

func newWorld(ctx context.Context, s scale, profiles string) *world {
	return &world{scale: s, ctx: ctx, profiles: profiles, samples: measure.Samples[string, sample]{}}
}

// prepare starts the server.
func (w *world) prepare() (err error) {
	if w.server != nil {
		return nil
	}
	if w.server, err = reflectortest.NewServer(reflectortest.OnPort()); err != nil {
		return err
	}
	return w.server.Seed(w.secrets())
}

func (w *world) secrets() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		random := rand.NewChaCha8([32]byte{1})
		for i := range w.objects {
			data := make([]byte, w.bytes)
			_, _ = random.Read(data)
			s := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i), Labels: map[string]string{"app.kubernetes.io/name": fmt.Sprintf("app-%04d", i/10)}},
				Data:       map[string][]byte{"data": data},
			}
			if i < used {
				s.Labels[ownedBy] = "true"
			}
			if !yield(s) {
				return
			}
		}
	}
}

func (w *world) close() error {
	if w.server != nil {
		w.server.Close()
	}
	return nil
}

// measure measures a contender once.
func (w *world) measure(contender string) (sample, error) {
	a := assignment{Contender: contender, Host: w.server.URL(), Objects: w.objects, Bytes: w.bytes}
	if w.profiles != "" {
		a.Profiles = measure.Profiles(filepath.Join(w.profiles, contender))
	}
	return worker.Measure(w.ctx, a)
}

// cases returns a case for each figure.
func (w *world) cases() []measure.Case {
	var all []measure.Case
	for _, c := range []struct {
		name, unit, omits string
		goal              measure.Goal
		of                func(sample) float64
	}{
		{"peak-rss", "MB", "memory that events need", measure.RatioAtMost(0.1), func(s sample) float64 { return s.RSS / 1e6 }},
		{"peak-rss-of-cache", "MB", "the program itself", measure.Goal{}, func(s sample) float64 { return (s.RSS - s.Empty) / 1e6 }},
		{"live-heap", "MB", "garbage and stacks", measure.Goal{}, func(s sample) float64 { return s.Live / 1e6 }},
		{"start-cpu", "ms", "the CPU time of the server", measure.Goal{}, func(s sample) float64 { return s.Start }},
		{"events-missed", "events", "failures of the server", measure.AtMost(0), func(s sample) float64 { return float64(s.Missed) }},
	} {
		all = append(all, measure.Case{
			Name: "secrets/" + c.name, Unit: c.unit, Omits: c.omits, Goal: c.goal, Rounds: w.rounds,
			Sides: func() (ours, peer measure.Round, err error) {
				if err := w.prepare(); err != nil {
					return nil, nil, err
				}
				return w.samples.Side("by-reference", w.measure, c.of), w.samples.Side("controller-runtime", w.measure, c.of), nil
			},
		})
	}
	return all
}
