package storebench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	for i, after := range changes[1:] {
		before := changes[i]
		assert.Less(t, before.Namespace+"/"+before.Name, after.Namespace+"/"+after.Name)
	}
	assert.Len(t, w.changesInOrder(1_000), len(w.set.Pods), "no more than there are")
}

// blind finds half of what it is asked for.
type blind struct{ subject }

func (blind) read(names []name) int    { return len(names) / 2 }
func (blind) len() int                 { return 1 }
func (blind) walk() int                { return 1 }
func (blind) walkNodes([]string) int   { return 1 }
func (blind) holds(*corev1.Pod) bool   { return false }
func (blind) update(*corev1.Pod) error { return nil }

func TestCacheThatDoesNotFindThePodsIsAnError(t *testing.T) {
	w := newWorld(tiny)
	for name, round := range map[string]round{
		"reading": w.reading(2, w.names), "beside a writer": w.readingBesideWriter(2), "walking": w.walking, "nodes": w.walkingNodes,
	} {
		_, err := round(blind{})
		assert.ErrorContains(t, err, "saw", name)
	}
	_, err := w.updating(w.changes, updateAll)(blind{})
	assert.ErrorContains(t, err, "did not arrive")
}

func TestReadersReadWhatTheyAreToldTo(t *testing.T) {
	w := newWorld(tiny)
	_, _, err := w.sides(nil)()
	require.NoError(t, err)
	r := reader{subject: w.ours, names: w.names[:100], limit: 250}
	reads, found := r.read(90)
	assert.Equal(t, 250, reads)
	assert.Equal(t, 250, found)
	r.stop.Store(true)
	reads, _ = r.read(0)
	assert.Equal(t, chunk, reads, "it stops at the first look")
}
