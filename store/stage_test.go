package store

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// staged is a store that is filled, and what it holds, as text.
type staged struct {
	to   Store[*corev1.Pod]
	held func() []string
}

func stagedStores(t require.TestingT) map[string]staged {
	plain := newPods()
	byNode, err := AddIndex(plain, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName, p.Name} })
	require.NoError(t, err)
	parted := newPods()
	part, err := parted.Partition(Scope{Namespace: "n"})
	require.NoError(t, err)
	c, into, _ := slims()
	again := Transform(into, ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*corev1.Pod, error) {
		if p.Labels["fail"] == "first" {
			return nil, errRefused
		}
		return p.DeepCopy(), nil
	})
	return map[string]staged{
		"cache":     {plain, func() []string { return append(names(plain.All()), names(byNode.Get("x"))...) }},
		"partition": {part, func() []string { return names(parted.All()) }},
		"transform": {again, func() []string {
			all := []string{}
			for key, s := range c.All() {
				all = append(all, fmt.Sprint(key, *s))
			}
			return all
		}},
	}
}

// A Stage does what ReplaceAll does with the objects that were put and not dropped.
func TestStageIsReplaceAllInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := stagedStores(t), stagedStores(t)
		for name := range one {
			for round := range 2 {
				var whole Listing[*corev1.Pod]
				stage := StageOf(one[name].to)
				var put []*corev1.Pod
				dropped := map[int]bool{}
				for n := range rapid.IntRange(0, 12).Draw(t, "objects") {
					p := pod(rapid.SampledFrom([]string{"n", "n", "n", "m"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"a", "b", "c", "d", ""}).Draw(t, "name"), "1", strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "version")))
					p.Spec.NodeName = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "node")
					failing(p, rapid.SampledFrom([]string{"", "", "", "error", "first", "rename"}).Draw(t, "fails"))
					put = append(put, p)
					stage.Put(p, Identity{})
					if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
						dropped[rapid.IntRange(0, n).Draw(t, "which")] = true
					}
				}
				for n, p := range put {
					if dropped[n] {
						stage.Drop(n)
					} else {
						whole.Objects = append(whole.Objects, p)
					}
				}
				rest := Listing[*corev1.Pod]{ResourceVersion: strconv.Itoa(10 + round), Lacking: []Rejection{{Key: Key{Namespace: "n", Name: "b"}, Err: errRefused}}}
				if rapid.Bool().Draw(t, "nothing is lacking") {
					rest.Lacking = nil
				}
				whole.ResourceVersion, whole.Lacking = rest.ResourceVersion, rest.Lacking
				want := Batches(other[name].to).ReplaceAll(whole)
				got := stage.Commit(rest)
				require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), name)
				require.Equal(t, other[name].held(), one[name].held(), name)
				require.Equal(t, other[name].to.ResourceVersion(), one[name].to.ResourceVersion(), name)
			}
		}
	})
}

func TestTransformKeepsNothingOfWhatIsStaged(t *testing.T) {
	c, into, calls := slims()
	stage := StageOf(into)
	var whole []weak.Pointer[corev1.Pod]
	for n := range 100 {
		p := pod("n", fmt.Sprint(n), "1", "5")
		p.Spec.NodeName = "x"
		whole = append(whole, weak.Make(p))
		stage.Put(p, Identity{})
	}
	assert.Equal(t, 100, calls.calls)
	runtime.GC()
	for _, p := range whole {
		require.Nil(t, p.Value())
	}
	assert.Zero(t, c.Len())
	require.NoError(t, stage.Commit(Listing[*corev1.Pod]{ResourceVersion: "9"}))
	assert.Equal(t, 100, c.Len())
	assert.Equal(t, "9", c.ResourceVersion())
}

// seeing is a cache whose owner wants to see what is written.
type seeing struct {
	*Cache[*corev1.Pod]
	seen *int
}

func (s *seeing) ReplaceAll(l Listing[*corev1.Pod]) error {
	*s.seen += len(l.Objects)
	return s.Cache.ReplaceAll(l)
}

func (s *seeing) Itself() Store[*corev1.Pod] { return s }

func TestStageDoesNotGoPastAWrapper(t *testing.T) {
	seen := 0
	stage := StageOf[*corev1.Pod](&seeing{newPods(), &seen})
	stage.Put(pod("n", "a", "1", "5"), Identity{})
	require.NoError(t, stage.Commit(Listing[*corev1.Pod]{ResourceVersion: "9"}))
	assert.Equal(t, 1, seen)
}

func TestStageFindsTheValuesOfIndexesAtOnce(t *testing.T) {
	c, asked := newPods(), 0
	index := func(p *corev1.Pod) []string { asked++; return []string{p.Spec.NodeName} }
	byNode, err := AddIndex(c, "node", index)
	require.NoError(t, err)
	check := func() { checkCache(t, c); checkIndex(t, byNode) }
	list := func() Stage[*corev1.Pod] {
		stage := StageOf[*corev1.Pod](c)
		for n := range 10 {
			stage.Put(sized(fmt.Sprint("a", n), n, 5), Identity{})
		}
		return stage
	}
	stage := list()
	assert.Equal(t, 10, asked)
	stage.Discard()
	check()
	assert.Zero(t, postingsOf(c.indexes[0].tree).Len())

	stage = list()
	stage.Drop(3)
	require.NoError(t, stage.Commit(Listing[*corev1.Pod]{ResourceVersion: "9"}))
	stage.Discard()
	assert.Equal(t, 20, asked, "and not once more")
	assert.Equal(t, 9, c.Len())
	check()

	// What is held already, and an index that comes meanwhile.
	stage = list()
	late, err := AddIndex(c, "late", func(p *corev1.Pod) []string { return []string{p.Name} })
	require.NoError(t, err)
	require.NoError(t, stage.Commit(Listing[*corev1.Pod]{ResourceVersion: "10"}))
	assert.Len(t, names(late.Get("a3")), 1)
	check()
}

// Functions that end the goroutine leave nothing of a list that is not made.
func TestWhatEndsTheGoroutineLeavesNoValues(t *testing.T) {
	for name, ends := range map[string]string{"the transform": "transform", "another index": "index"} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			byNode, err := AddIndex(c, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
			require.NoError(t, err)
			_, err = AddIndex(c, "ending", func(p *corev1.Pod) []string {
				if p.Labels["ends"] == "index" {
					runtime.Goexit()
				}
				return nil
			})
			require.NoError(t, err)
			into := Transform(c, ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*corev1.Pod, error) {
				if p.Labels["ends"] == "transform" {
					runtime.Goexit()
				}
				return p, nil
			})
			bad := sized("b", 2, 5)
			bad.Labels = map[string]string{"ends": ends}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = into.Replace([]*corev1.Pod{sized("a", 1, 5), bad}, "9")
			}()
			<-ended
			assert.Zero(t, c.Len())
			assert.Empty(t, byNode.vocabulary.terms)
		})
	}
}

func TestStageAsksNothingOfWhatIsHeld(t *testing.T) {
	c, asked := newPods(), 0
	_, err := AddIndex(c, "node", func(p *corev1.Pod) []string { asked++; return []string{p.Spec.NodeName} })
	require.NoError(t, err)
	for range 2 {
		stage := StageOf[*corev1.Pod](c)
		stage.Put(sized("a", 1, 5), Identity{})
		require.NoError(t, stage.Commit(Listing[*corev1.Pod]{ResourceVersion: "9"}))
		assert.Equal(t, 1, asked)
	}
	checkCache(t, c)
}
