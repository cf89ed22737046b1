package storebench

import (
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/measure/measuretest"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tiny = scale{
	size:    objects.Size{Pods: 300, Namespaces: 4, Nodes: 6},
	flushed: 1 << 10,
	lists:   []int{10, 100},
	lag:     20 * time.Millisecond,
	reads:   1_000,
	writing: 10 * time.Millisecond,
	walks:   2,
	sweeps:  2,
	updates: 100,
	batches: 2,
	batch:   50,
	rests:   4,
	rest:    time.Millisecond,
	pace:    100 * time.Microsecond,
}

func TestEveryCaseRunsOnBothSides(t *testing.T) {
	measuretest.EveryCaseRuns(t, newWorld(tiny).cases(), 2, func(t *testing.T, c measure.Case, figure float64) {
		if c.Unit == "bytes/object" {
			return // so few pods weigh less than what the runtime does meanwhile
		}
		assert.GreaterOrEqual(t, figure, 0.0)
		if strings.HasSuffix(c.Unit, "s") && !strings.Contains(c.Unit, "alloc") {
			assert.Positive(t, figure)
		}
	})
}

func TestArgumentsThatMakeNoSense(t *testing.T) { measuretest.RefusesNonsense(t, Run) }

// subjects returns both caches, filled.
func subjects(t *testing.T, w *world) map[string]subject {
	t.Helper()
	require.NoError(t, w.fill())
	return map[string]subject{"ours": w.ours, "peer": w.peer}
}

// get returns what a subject holds, past the methods that are measured.
func get(t *testing.T, s subject, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	switch s := s.(type) {
	case *ours:
		for key, held := range s.cache.All() {
			if key.Namespace == pod.Namespace && key.Name == pod.Name {
				return held
			}
		}
	case *peer:
		held, exists, err := s.indexer.Get(pod)
		require.NoError(t, err)
		if exists {
			return held.(*corev1.Pod)
		}
	}
	return nil
}

func TestReadsSeeEveryPod(t *testing.T) {
	w := newWorld(tiny)
	for side, s := range subjects(t, w) {
		assert.Equal(t, len(w.names), s.read(w.names), side)
		assert.Zero(t, s.read([]name{{"no-such-namespace", "pod"}}), side)
		assert.Equal(t, len(w.set.Pods), s.walk(), side)
		assert.Equal(t, len(w.set.Pods), s.walkNodes(w.set.Nodes), side)
		assert.Zero(t, s.walkNodes([]string{"no-such-node"}), side)
		rests := 0
		assert.Equal(t, len(w.set.Pods), s.walkSlowly(func() { rests++ }), side)
		assert.Equal(t, len(w.set.Pods), rests, side)
	}
}

func TestUpdatesArrive(t *testing.T) {
	w := newWorld(tiny)
	for side, s := range subjects(t, w) {
		for method, update := range map[string]func([]*corev1.Pod) error{
			"update": s.update, "updateAndLook": s.updateAndLook, "updateAtOnce": s.updateAtOnce,
		} {
			changes := w.changesInOrder(20)
			require.NoError(t, update(changes), side)
			for _, changed := range changes {
				require.Same(t, changed, get(t, s, changed), "%s %s", side, method)
			}
		}
		assert.Equal(t, len(w.set.Pods), s.walk(), side)
	}
}

func TestCachesAreFilledAnewAfterTheyWereWrittenTo(t *testing.T) {
	w := newWorld(tiny)
	sides := w.sides(func(subject) (float64, error) { return 0, nil })
	_, _, err := sides()
	require.NoError(t, err)
	first := w.ours
	_, _, err = sides()
	require.NoError(t, err)
	assert.Same(t, first, w.ours, "nothing was written")
	w.changes(1)
	_, _, err = sides()
	require.NoError(t, err)
	assert.NotSame(t, first, w.ours)
}

func TestChangesInOrder(t *testing.T) {
	w := newWorld(tiny)
	changes := w.changesInOrder(10)
	require.Len(t, changes, 10)
	for i := range changes[1:] {
		a, b := changes[i], changes[i+1]
		assert.Less(t, a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	}
	assert.Len(t, w.changesInOrder(1_000), 300, "no more than there are")
}

// blind finds half of what it is asked for.
type blind struct{ subject }

func (blind) read(names []name) int      { return len(names) / 2 }
func (blind) len() int                   { return 1 }
func (blind) walk() int                  { return 1 }
func (blind) walkNodes([]string) int     { return 1 }
func (blind) walkSlowly(func()) int      { return 1 }
func (blind) update([]*corev1.Pod) error { return nil }

func TestCacheThatDoesNotFindThePodsIsAnError(t *testing.T) {
	w := newWorld(tiny)
	for name, round := range map[string]func(subject) (float64, error){
		"reading": w.reading(2, w.names), "beside a writer": w.readingBesideWriter(2), "walking": w.walking, "nodes": w.walkingNodes,
		"read allocations": w.readAllocations, "walk allocations": w.walkAllocations, "node allocations": w.nodeAllocations,
	} {
		_, err := round(blind{})
		assert.ErrorContains(t, err, "saw", name)
	}
}

func TestReadersReadWhatTheyAreToldTo(t *testing.T) {
	w := newWorld(tiny)
	require.NoError(t, w.fill())
	r := reader{subject: w.ours, names: w.names[:100], limit: 250}
	reads, found := r.read(90)
	assert.Equal(t, 250, reads)
	assert.Equal(t, 250, found)
	r.stop.Store(true)
	reads, _ = r.read(0)
	assert.Equal(t, chunk, reads, "it stops at the first look")
}
