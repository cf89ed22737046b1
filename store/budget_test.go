package store

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"weak"

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

func TestDeletionMakesRoomInItsBatch(t *testing.T) {
	c, b := budgeted(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("a", 60, 1)}, "1"))
	require.NoError(t, apply(c, deleting(sized("a", 60, 2)), adding(sized("b", 90, 3))))
	require.NoError(t, apply(c, Write[*corev1.Pod]{Type: Deletion, Key: Key{Namespace: "n", Name: "b"}}, adding(sized("c", 100, 4))))
	assert.Equal(t, []string{"c"}, namesOf(c))
	assert.EqualValues(t, 100, b.Bytes())
}

// These tests hold store-S11 while a list comes.

func TestBudgetBoundsAListWhileItComes(t *testing.T) {
	c, gathered := limited(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("held", 30, 1)}, "1"))
	batch, _ := begun(c)
	var err error
	n := 0
	for ; err == nil; n++ { // the list is never complete
		require.Less(t, n, 1_000_000)
		err = batch.Write(adding(sized(strconv.Itoa(n), 40, 2)))
		require.LessOrEqual(t, gathered(), int64(130))
	}
	require.ErrorIs(t, err, ErrOverBudget)
	require.ErrorContains(t, err, "here of 100 bytes")
	assert.Zero(t, gathered())
	require.Equal(t, err, batch.Write(adding(sized("later", 1, 2))))
	require.Equal(t, err, batch.Commit("9"))
	batch.Discard()
	assert.Equal(t, []string{"held"}, namesOf(c), "what is held stays")
	assert.Equal(t, "1", c.ResourceVersion())
	assert.Zero(t, gathered())
}

func TestObjectsBeyondTheBudgetAreNotKeptUntilTheListIsComplete(t *testing.T) {
	c, _ := limited(t, 100)
	batch, _ := begun(c)
	require.NoError(t, batch.Write(adding(sized("a", 90, 1))))
	var over []weak.Pointer[corev1.Pod]
	for n := range 50 {
		p := sized(fmt.Sprint("over", n), 20, 1)
		over = append(over, weak.Make(p))
		require.NoError(t, batch.Write(adding(p)))
	}
	runtime.GC()
	for _, p := range over {
		require.Nil(t, p.Value())
	}
	var rejected *RejectedError
	require.ErrorAs(t, batch.Commit("9"), &rejected)
	assert.Len(t, rejected.Rejections, 50)
	assert.Equal(t, "over0", rejected.Rejections[0].Key.Name)
	assert.Equal(t, []string{"a"}, namesOf(c))
}

func TestListWhoseStateFitsTheBudgetIsTaken(t *testing.T) {
	for name, objects := range map[string][]*corev1.Pod{
		"the same": {sized("a", 60, 3), sized("b", 40, 3)},
		"others":   {sized("c", 100, 3)},
		"grown":    {sized("a", 100, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			c, gathered := limited(t, 100)
			require.NoError(t, c.Replace([]*corev1.Pod{sized("a", 60, 1), sized("b", 40, 2)}, "2"))
			batch, err := begun(c, objects...)
			require.NoError(t, err)
			require.NoError(t, batch.Commit("9"))
			assert.Equal(t, len(objects), c.Len())
			assert.Equal(t, "9", c.ResourceVersion())
			assert.Zero(t, gathered())
		})
	}
}

func TestListStoresObjectsThatDoNotGrowAfterOthersFilledTheBudget(t *testing.T) {
	c, gathered := limited(t, 100)
	require.NoError(t, c.Replace([]*corev1.Pod{sized("z", 50, 1)}, "1"))
	batch, err := begun(c, sized("a1", 50, 2), sized("a2", 50, 2), sized("a3", 50, 2), sized("z", 50, 2))
	require.NoError(t, err)
	require.ErrorIs(t, batch.Commit("9"), ErrOverBudget)
	assert.Equal(t, []string{"a1", "z"}, namesOf(c))
	held, _ := c.Get(Key{Namespace: "n", Name: "z"})
	assert.Equal(t, "2", held.ResourceVersion)
	assert.Zero(t, gathered())
}

func TestListThatFilledTheBudgetKeepsNoOtherFromItsHeldObjects(t *testing.T) {
	c, b := budgeted(t, 100)
	endless, other := partition(t, c, Scope{Namespace: "m"}), partition(t, c, Scope{Namespace: "n"})
	require.NoError(t, other.Replace([]*corev1.Pod{sized("a", 40, 1), sized("b", 40, 1)}, "1"))
	batch, _ := begun(endless)
	for i := range 20 {
		p := sized(strconv.Itoa(i), 20, 2)
		p.Namespace = "m"
		require.NoError(t, batch.Write(adding(p)))
	}
	assert.EqualValues(t, 100, b.pending)
	again, err := begun(other, sized("a", 40, 3), sized("b", 30, 3))
	require.NoError(t, err)
	require.NoError(t, again.Commit("3"))
	assert.Equal(t, "3", other.ResourceVersion())
	assert.EqualValues(t, 70, b.Bytes())
	batch.Discard()
	assert.Zero(t, b.pending)
	assert.Zero(t, b.growing)
}

func TestListsThatEndGiveBackTheirShareOfTheBudget(t *testing.T) {
	c := newPods()
	b, err := AddBudget(c, 100, sizeOfPod)
	require.NoError(t, err)
	gathered := func() int64 { return b.pending }
	for name, end := range map[string]func(Batch[*corev1.Pod]){
		"discarded": func(b Batch[*corev1.Pod]) { b.Discard() },
		"committed": func(b Batch[*corev1.Pod]) { require.NoError(t, b.Commit("9")) },
		"dropped": func(b Batch[*corev1.Pod]) {
			require.NoError(t, b.Write(deleting(sized("a", 80, 2))))
			require.NoError(t, b.Commit("9"))
		},
	} {
		batch, err := begun(c, sized("a", 80, 1))
		require.NoError(t, err)
		require.EqualValues(t, 80, gathered(), name)
		end(batch)
		require.Zero(t, gathered(), name)
		batch.Discard()
		require.Zero(t, gathered(), name)
		require.NoError(t, c.Replace(nil, ""))
	}
}

// A watch-list may go on for long while objects change and go.
func TestListKeepsNoStatesThatItSupersedes(t *testing.T) {
	c := newPods()
	values := indexed(t, c, func(p *corev1.Pod) []string { return []string{p.ResourceVersion} })
	batch, err := begun(c)
	require.NoError(t, err)
	for n := range 20 * maxScratch {
		p := pod("n", strconv.Itoa(n%10), "u", strconv.Itoa(n))
		require.NoError(t, batch.Write(adding(p)))
		require.NoError(t, batch.Write(deleting(pod("n", fmt.Sprint("gone", n), "u", "1"))))
		require.LessOrEqual(t, values(), 2*maxScratch)
	}
	for n := range 20 * maxScratch { // in the order of keys
		require.NoError(t, batch.Write(deleting(pod("z", fmt.Sprintf("%06d", n), "u", "1"))))
	}
	assert.LessOrEqual(t, len(batch.(*replaceBatch[*corev1.Pod]).writes), 4*maxScratch)
	require.NoError(t, batch.Commit("9"))
	assert.Equal(t, 10, c.Len())
	assert.Equal(t, 10, values())
}

// A watch-list names a key again while it goes on.
func TestBudgetCountsTheLastWordOnAKeyOfAList(t *testing.T) {
	c, gathered := limited(t, 100)
	batch, err := begun(c, sized("a", 40, 1), sized("a", 40, 2), sized("a", 60, 3))
	require.NoError(t, err)
	assert.EqualValues(t, 60, gathered())
	require.NoError(t, batch.Write(deleting(sized("a", 60, 4))))
	assert.Zero(t, gathered())
	require.NoError(t, batch.Write(adding(sized("b", 100, 5))))
	batch.Keep(Key{Namespace: "n", Name: "b"})
	assert.Zero(t, gathered())
	require.NoError(t, batch.Write(adding(sized("b", 100, 6))))
	require.NoError(t, batch.Commit("9"))
	assert.Equal(t, []string{"b"}, namesOf(c))
	assert.Equal(t, "9", c.ResourceVersion())
	assert.Zero(t, gathered())
}

func TestEndlessListOfNamelessObjectsEnds(t *testing.T) {
	c, _ := limited(t, 100)
	batch, err := begun(c)
	require.NoError(t, err)
	n := 0
	for ; err == nil; n++ {
		require.LessOrEqual(t, n, maxOverBudget)
		err = batch.Write(adding(nameless("1")))
	}
	require.NotErrorIs(t, err, ErrOverBudget, "more room would not help")
	require.ErrorContains(t, err, "more than 10000 of its objects were rejected")
	require.ErrorContains(t, err, errNoName.Error())
	batch.Keep(Key{Name: "a"})
	require.Equal(t, err, batch.Commit("9"))
}

func TestEndlessListOfOneKeyEnds(t *testing.T) {
	c, _ := limited(t, 100)
	batch, err := begun(c)
	require.NoError(t, err)
	for n := range maxOverBudget {
		require.NoError(t, batch.Write(adding(sized("a", 101, n))))
	}
	require.ErrorIs(t, batch.Write(adding(sized("a", 101, 1))), ErrOverBudget)
}

func TestLargestLimitIsNone(t *testing.T) {
	for _, limit := range []int64{math.MaxInt64, math.MaxInt64 - 10} {
		c, b := budgeted(t, limit)
		require.NoError(t, c.Replace([]*corev1.Pod{sized("a", 60, 1)}, "1"))
		batch, err := begun(c, sized("a", 70, 2), sized("b", 60, 2))
		require.NoError(t, err)
		require.NoError(t, batch.Commit("2"))
		require.NoError(t, c.Add(sized("c", 60, 3)))
		assert.Equal(t, "3", c.ResourceVersion())
		assert.EqualValues(t, 190, b.Bytes())
	}
}

func TestSizesThatAreNoneCountWithinBounds(t *testing.T) {
	sizes := map[string]int64{"negative": -60, "endless": math.MaxInt64, "a": 60, "b": 60, "c": 60}
	c := newPods()
	b, err := AddBudget(c, 100, func(p *corev1.Pod) int64 { return sizes[p.Name] })
	require.NoError(t, err)
	require.NoError(t, c.Add(sized("negative", 0, 1)))
	assert.Zero(t, b.Bytes(), "nothing makes room for others")
	require.ErrorIs(t, c.Add(sized("endless", 0, 2)), ErrOverBudget)
	for range 10 {
		batch, err := begun(c, sized("negative", 0, 3), sized("endless", 0, 3), sized("a", 0, 3))
		require.NoError(t, err)
		assert.EqualValues(t, 60, b.pending)
		require.NoError(t, batch.Write(adding(sized("b", 0, 3))))
		assert.EqualValues(t, 60, b.pending)
		batch.Discard()
		assert.Zero(t, b.pending)
	}
	require.ErrorIs(t, c.Add(sized("endless", 0, 4)), ErrOverBudget)

	all, err := AddBudget(newPods(), 0, func(*corev1.Pod) int64 { return math.MaxInt64 })
	require.NoError(t, err)
	for range 10 {
		all.committed([]mutation[*corev1.Pod]{{after: &entry[*corev1.Pod]{}}})
		assert.Positive(t, all.Bytes())
	}
}
