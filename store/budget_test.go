package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// These tests hold store-S11.

// sized returns a pod of a size, as sizeOfPod tells it.
func sized(name string, size, version int) *corev1.Pod {
	p := pod("n", name, "uid-"+name, strconv.Itoa(version))
	p.Spec.NodeName = strings.Repeat("x", size)
	return p
}

func sizeOfPod(p *corev1.Pod) int64 { return int64(len(p.Spec.NodeName)) }

func budgeted(t *testing.T, limit int64) (*Cache[*corev1.Pod], *Budget[*corev1.Pod]) {
	t.Helper()
	c := newPods()
	b, err := AddBudget(c, limit, sizeOfPod)
	require.NoError(t, err)
	return c, b
}

func TestBudgetCounts(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Add(sized("before", 5, 1)))
	b, err := AddBudget(&c.View, 0, sizeOfPod)
	require.NoError(t, err)
	is := func(want int64) {
		t.Helper()
		assert.Equal(t, want, b.Bytes())
	}
	is(5)
	require.NoError(t, c.Add(sized("a", 100, 2)))
	is(105)
	require.NoError(t, c.Update(sized("a", 30, 3)))
	is(35)
	var batch writes[*corev1.Pod]
	batch.Update(sized("a", 10, 4))
	batch.Update(sized("a", 20, 5))
	batch.Delete(sized("before", 5, 6))
	batch.Add(sized("b", 1, 7))
	require.NoError(t, batch.to(c))
	is(21)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("a", 20, 5), sized("c", 3, 8)}, "9"))
	is(23)
	require.NoError(t, c.DeleteKey(Key{Namespace: "n", Name: "c"}))
	is(20)
	err = c.Drop(Scope{Namespace: "n"})
	require.NoError(t, err)
	is(0)
	_, err = AddBudget(c, 1, sizeOfPod)
	require.ErrorContains(t, err, "has a budget already")
}

func TestWhatIsOverTheBudgetIsRejected(t *testing.T) {
	c, b := budgeted(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("a", 60, 1)}, "1"))
	err := c.Add(sized("b", 41, 2))
	rejected, ok := errors.AsType[*RejectedError](err)
	require.True(t, ok)
	assert.Equal(t, Key{Namespace: "n", Name: "b"}, rejected.Rejections[0].Key)
	require.ErrorContains(t, err, "about 60 bytes are held, 101 with this object, and 100 are allowed")
	require.ErrorIs(t, err, ErrOverBudget)

	require.ErrorIs(t, c.Update(sized("a", 101, 3)), ErrOverBudget)
	held, _ := c.Get(Key{Namespace: "n", Name: "a"})
	assert.Equal(t, "1", held.ResourceVersion, "what is held stays")
	assert.Equal(t, "1", c.ResourceVersion(), "and the version stays before what is lacking")

	require.NoError(t, c.Update(sized("a", 59, 4)))
	require.NoError(t, c.Add(sized("b", 41, 5)), "exactly the limit is allowed")
	assert.EqualValues(t, 100, b.Bytes())
	assert.Equal(t, "5", c.ResourceVersion(), "nothing is lacking any more")
}

func TestListOverTheBudgetIsTakenInItsOrder(t *testing.T) {
	c, b := budgeted(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("goes", 90, 1), sized("stays", 10, 2)}, "2"))
	// What goes makes room.
	err := c.Replace([]*corev1.Pod{sized("a", 50, 3), sized("b", 41, 4), sized("stays", 20, 5), sized("c", 30, 6)}, "6")
	rejected, ok := errors.AsType[*RejectedError](err)
	require.True(t, ok)
	assert.Len(t, rejected.Rejections, 1)
	assert.Equal(t, []string{"a", "c", "stays"}, namesOf(c))
	assert.EqualValues(t, 100, b.Bytes())
	assert.Equal(t, "2", c.ResourceVersion())
}

func namesOf(c *Cache[*corev1.Pod]) (all []string) {
	for key := range c.All() {
		all = append(all, key.Name)
	}
	return all
}

func TestBudgetThatIsExceededAlreadyThrowsNothingOut(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Add(sized("a", 200, 1)))
	b, err := AddBudget(c, 100, sizeOfPod)
	require.NoError(t, err)
	assert.EqualValues(t, 200, b.Bytes())
	require.NoError(t, c.Update(sized("a", 200, 2)), "it does not grow")
	require.NoError(t, c.Update(sized("a", 150, 3)))
	require.ErrorIs(t, c.Update(sized("a", 151, 4)), ErrOverBudget)
	require.ErrorIs(t, c.Add(sized("b", 1, 5)), ErrOverBudget)
	require.NoError(t, c.Delete(sized("a", 0, 6)))
	require.NoError(t, c.Add(sized("b", 1, 7)))
}

func TestSizeFunctionThatPanicsRejectsItsObject(t *testing.T) {
	c := newPods()
	fragile := func(p *corev1.Pod) int64 {
		if p.Name == "bad" {
			panic("no size")
		}
		return 1
	}
	b, err := AddBudget(c, 0, fragile)
	require.NoError(t, err)
	require.ErrorIs(t, c.Add(sized("bad", 1, 1)), ErrPanic)
	require.NoError(t, c.Add(sized("good", 1, 2)))
	require.ErrorIs(t, c.Replace([]*corev1.Pod{sized("bad", 1, 3)}, "3"), ErrPanic)
	assert.Zero(t, b.Bytes())

	other := newPods()
	require.NoError(t, other.Add(sized("bad", 1, 1)))
	_, err = AddBudget(other, 0, fragile)
	require.ErrorIs(t, err, ErrPanic)
	_, err = AddBudget(other, 0, nil)
	require.NoError(t, err, "it was not added")
}

func TestBudgetAgainstASum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newPods()
		if rapid.Bool().Draw(t, "indexed") {
			_, err := AddIndex(c, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
			require.NoError(t, err)
		}
		const limit = 50
		b, err := AddBudget(c, limit, sizeOfPod)
		require.NoError(t, err)
		version := 0
		draw := func(t *rapid.T) *corev1.Pod {
			version++
			return sized(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), rapid.IntRange(0, 40).Draw(t, "size"), version)
		}
		t.Repeat(map[string]func(*rapid.T){
			"batch": func(t *rapid.T) {
				var batch writes[*corev1.Pod]
				for range rapid.IntRange(1, 5).Draw(t, "writes") {
					if p := draw(t); rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
						batch.Delete(p)
					} else {
						batch.Update(p)
					}
				}
				_ = batch.to(c)
			},
			"list": func(t *rapid.T) {
				var listed []*corev1.Pod
				for range rapid.IntRange(0, 5).Draw(t, "objects") {
					listed = append(listed, draw(t))
				}
				_ = c.Replace(listed, fmt.Sprint(version))
			},
			"snapshot": func(*rapid.T) { c.Snapshot() },
			"": func(t *rapid.T) {
				var sum int64
				for _, p := range c.All() {
					sum += sizeOfPod(p)
				}
				require.Equal(t, sum, b.Bytes())
				require.LessOrEqual(t, sum, int64(limit))
			},
		})
	})
}
