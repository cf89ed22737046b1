package referencebench

import (
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Topic is the subcommand "reference".
var Topic = measure.Topic{Name: "reference", Summary: "caching by reference under controller-runtime: memory, and events that are missed", Cases: cases}

// assignment is the work of a process.
type assignment struct {
	Contender string

	Host     string
	Objects  int
	Bytes    int // of each
	Profiles measure.Profiles
}

const (
	namespace = "default"
	used      = 20 // Secrets that are owned, and that are referenced
	ownedBy   = "example.com/owned"
)

// name returns the name of a Secret. The first ones are owned, then come the referenced ones.
func name(i int) string { return fmt.Sprintf("secret-%05d", i) }

func cases(run *measure.World) []measure.Case {
	type scale struct{ objects, bytes, rounds int }
	s := map[measure.Size]scale{measure.Thorough: {5_000, 32_000, 3}, measure.Quick: {1_000, 32_000, 1}, measure.Tiny: {100, 100, 1}}[run.Size]
	c := measure.Comparison[assignment]{Measure: func(a assignment) (measure.Figures, error) {
		server, err := reflectortest.NewServer(reflectortest.OnPort())
		if err != nil {
			return nil, err
		}
		defer server.Close()
		if err := server.Seed(secrets(s.objects, s.bytes)); err != nil {
			return nil, err
		}
		a.Host, a.Objects, a.Bytes, a.Profiles = server.URL(), s.objects, s.bytes, run.Profiles(a.Contender)
		return measureInProcess(a)
	}}
	return c.Cases("secrets", s.rounds, assignment{Contender: "by-reference"}, assignment{Contender: "controller-runtime"},
		measure.Metric{Name: "peak-rss", Unit: "MB", Omits: "memory that events need"}.Within(0.1),
		measure.Metric{Name: "peak-rss-of-cache", Unit: "MB", Omits: "the program itself"},
		measure.Metric{Name: "live-heap", Unit: "MB", Omits: "garbage and stacks"},
		measure.Metric{Name: "start-cpu", Unit: "ms", Omits: "the CPU time of the server"},
		measure.Metric{Name: "events-missed", Unit: "events", Omits: "failures of the server", Goal: measure.AtMost(0)})
}

func secrets(objects, size int) iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		random := rand.NewChaCha8([32]byte{1})
		for i := range objects {
			data := make([]byte, size)
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
